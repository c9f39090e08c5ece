"""Many logs in one log directory: the work of a stop and a start, counted and not timed."""

import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.randomness import Random
from barnabas.disk import disk as disk_module
from barnabas.disk.disk import MANY_FILES, DataFile, RealDisk
from barnabas.log.log_dir import CLEAN_SHUTDOWN
from barnabas.log.logs import Logs
from tests.log.batches import CONFIG, append, read_all
from tests.log.test_logs import CLUSTER, StoppedClock, config_of

COUNT = 100
PARTITIONS = [TopicPartition("my-topic", number) for number in range(COUNT)]


class CountingDisk(RealDisk):
    """Counts calls, and the writes to each file of a partition."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.calls: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()

    def open(self, path: str, /, *, create: bool = False) -> DataFile:
        self.calls["open"] += 1
        return super().open(path, create=create)

    def map(self, path: str, size: int, /) -> memoryview:
        self.calls["map"] += 1
        return super().map(path, size)

    def resize(self, path: str, size: int, /) -> None:
        self.writes[path] += 1
        super().resize(path, size)

    def end_with(self, path: str, position: int, data: bytes, /) -> None:
        self.writes[path] += 1
        super().end_with(path, position, data)

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        self.writes[path] += 1
        super().replace(path, data, sync=sync, private=private)

    def load(self, path: str, /) -> bytes | None:
        self.calls["load"] += 1
        return super().load(path)

    def list(self, path: str = "", /) -> list[str]:
        self.calls["list"] += 1
        return super().list(path)

    def sizes(self, path: str, /) -> dict[str, int]:
        self.calls["sizes"] += 1
        return super().sizes(path)

    def sync(self, path: str = "", /) -> None:
        self.calls["sync"] += 1

    def sync_all(self, paths: Collection[str], /) -> None:
        self.calls["sync_all"] += 1
        super().sync_all(paths)

    def partition_writes(self) -> dict[str, int]:
        return {path: count for path, count in self.writes.items() if "/" in path}


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The syncs of a whole file system."""
    seen: list[int] = []

    def sync_file_system(descriptor: int) -> bool:
        seen.append(descriptor)
        return True

    monkeypatch.setattr(disk_module, "sync_file_system", sync_file_system)
    return seen


@contextmanager
def locked(folder: Path) -> Iterator[CountingDisk]:
    disk = CountingDisk(folder)
    lock = disk.lock(".lock")
    assert lock is not None
    yield disk
    lock.close()


def opened(folder: Path) -> tuple[Logs, CountingDisk]:
    disk = CountingDisk(folder)
    logs = Logs([disk], clock=StoppedClock(), random=Random(7))
    logs.acquire(BrokerId(1), CLUSTER)
    disk.calls.clear()
    logs.open_all(config_of)
    return logs, disk


def filled(folder: Path) -> tuple[Logs, CountingDisk]:
    logs, disk = opened(folder)
    for partition in PARTITIONS:
        append(logs.create(partition, None, CONFIG))
    return logs, disk


def test_a_clean_stop_of_many_logs_syncs_the_file_system_once(
    tmp_path: Path, syncs: list[int]
) -> None:
    logs, disk = filled(tmp_path)
    disk.calls.clear()
    logs.close({})
    assert len(syncs) == 1
    assert disk.calls["sync_all"] == 1
    # One for each checkpoint, and one for the marker.
    assert disk.calls["sync"] <= 5


def test_a_few_files_are_fsynced_one_by_one(tmp_path: Path, syncs: list[int]) -> None:
    with locked(tmp_path) as disk:
        disk.sync_all([f"{number}" for number in range(MANY_FILES - 1)])
    assert (len(syncs), disk.calls["sync"]) == (0, MANY_FILES - 1)


def test_without_a_sync_of_the_file_system_every_file_is_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "sync_file_system", lambda _: False)
    with locked(tmp_path) as disk:
        disk.sync_all([f"{number}" for number in range(MANY_FILES)])
    assert disk.calls["sync"] == MANY_FILES


def test_files_on_another_file_system_are_fsynced_one_by_one(
    tmp_path: Path, syncs: list[int]
) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs two file systems")
    (tmp_path / "moved-0").symlink_to(other)
    with locked(tmp_path) as disk:
        disk.sync_all([f"moved-0/{number}" for number in range(MANY_FILES)])
    assert (len(syncs), disk.calls["sync"]) == (0, MANY_FILES)


def test_a_stop_that_cannot_write_everything_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync_file_system(_: int) -> bool:
        raise OSError(5, "Input/output error")

    logs, _ = filled(tmp_path)
    monkeypatch.setattr(disk_module, "sync_file_system", sync_file_system)
    logs.close({})
    assert str(tmp_path) in logs.offline
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_the_real_sync_of_the_file_system_reports_success(tmp_path: Path) -> None:
    logs, _ = filled(tmp_path)
    logs.close({})
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert not logs.offline


def test_a_stop_writes_nothing_to_logs_that_have_not_changed(
    tmp_path: Path, syncs: list[int]
) -> None:
    logs, _ = filled(tmp_path)
    logs.close({})
    syncs.clear()
    logs, disk = opened(tmp_path)
    logs.close({})
    assert disk.partition_writes() == {}
    assert syncs == []


def test_a_start_after_a_clean_stop_reads_each_directory_once(tmp_path: Path) -> None:
    logs, _ = filled(tmp_path)
    logs.close({})
    logs, disk = opened(tmp_path)
    assert len(logs) == COUNT
    assert disk.calls["sizes"] == COUNT
    assert disk.calls["list"] == 1
    assert disk.calls["open"] == COUNT
    assert disk.calls["map"] == 0
    # The epochs, the time index and the snapshot of each, and the checkpoints.
    assert disk.calls["load"] <= 3 * COUNT + 8
    assert disk.partition_writes() == {}
    logs.release()


def test_recovery_writes_each_index_once_and_keeps_every_record(tmp_path: Path) -> None:
    logs, _ = filled(tmp_path)
    kept = {log.partition: read_all(log) for log in logs}
    logs.release()  # as SIGKILL leaves them
    logs, disk = opened(tmp_path)
    assert {log.partition: read_all(log) for log in logs} == kept
    indexes = {path: n for path, n in disk.partition_writes().items() if path.endswith("index")}
    assert len(indexes) == 2 * COUNT
    assert set(indexes.values()) == {1}
    assert disk.calls["sync"] == disk.calls["sync_all"] == 0
    for partition in PARTITIONS:
        sizes = {name: os.stat(tmp_path / str(partition) / name).st_size for name in _INDEXES}
        assert sizes == {_INDEXES[0]: 0, _INDEXES[1]: 12}
    logs.release()


_INDEXES = (f"{0:020}.index", f"{0:020}.timeindex")
