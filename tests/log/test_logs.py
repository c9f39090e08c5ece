"""All partitions of a broker: log directories, owners, checkpoints, clean and unclean stops."""

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import ConfigError, DiskFault
from barnabas.base.ids import BrokerId, Offset, TopicPartition
from barnabas.base.randomness import Random
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.logs import Logs
from tests.log.batches import CONFIG, NOW, append, fill, read_all

CLUSTER = "lkc-abcdefghijklmnopqr"
A, B, C = (TopicPartition("my-topic", n) for n in range(3))
TOPIC, OTHER_TOPIC = uuid.UUID(int=1), uuid.UUID(int=2)


class StoppedClock:
    def now_ms(self) -> int:
        return NOW


def make_logs(*folders: Path) -> Logs:
    disks = [RealDisk(str(folder)) for folder in folders]
    return Logs(disks, clock=StoppedClock(), random=Random(7))


def config_of(topic: str) -> TopicConfig:
    assert topic == "my-topic"
    return CONFIG


@contextmanager
def opened(*folders: Path) -> Iterator[Logs]:
    """Logs that are in use, and let go uncleanly."""
    logs = make_logs(*folders)
    logs.acquire(BrokerId(1), CLUSTER)
    try:
        logs.open_all(config_of)
        yield logs
    finally:
        logs.release()


def test_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    with opened(tmp_path / "x", tmp_path / "y") as logs:
        for partition in (A, B, C):
            logs.create(partition, None, CONFIG)
        assert len(logs) == 3
        assert [log.disk.log_dir for log in logs] == [
            str(tmp_path / name) for name in ("x", "y", "x")
        ]


def test_a_clean_stop_loses_nothing(tmp_path: Path) -> None:
    folders = (tmp_path / "x", tmp_path / "y")
    topic_id = uuid.uuid4()
    with opened(*folders) as logs:
        written = fill(logs.create(A, topic_id, CONFIG), 50)
        fill(logs.create(B, topic_id, CONFIG), 5)
        logs.close({A: 50, B: 4})
    marker = json.loads((tmp_path / "x" / ".kafka_cleanshutdown").read_text())
    assert marker == {"version": 0, "brokerEpoch": -1}
    heard: list[tuple[int, int]] = []
    logs = make_logs(*folders)
    logs.acquire(BrokerId(1), CLUSTER)
    assert not (tmp_path / "x" / ".kafka_cleanshutdown").exists()
    assert all(folder.was_clean for folder in logs.log_dirs.values())
    logs.open_all(config_of, lambda done, total: heard.append((done, total)))
    assert heard == [(1, 2), (2, 2)]
    log = logs.get(A)
    assert log is not None
    assert read_all(log) == written
    assert (log.topic_id, log.recovery_point) == (topic_id, 50)
    assert logs.checkpoints.high_watermarks == {A: 50, B: 4}
    logs.release()


def test_after_an_unclean_stop_only_what_was_flushed_is_trusted(tmp_path: Path) -> None:
    with opened(tmp_path) as logs:
        log = logs.create(A, None, CONFIG)
        fill(log, 50)
        log.flush(NOW)
        written = read_all(log) + fill(log, 5)
        for write in logs.checkpoints.writes({A: 50}):
            write.run()
    checkpoint = (tmp_path / "recovery-point-offset-checkpoint").read_bytes()
    assert checkpoint == b"0\n1\nmy-topic 0 50\n"
    path = sorted((tmp_path / str(A)).glob("*.log"))[-1]
    path.write_bytes(path.read_bytes()[:-1])
    with opened(tmp_path) as logs:
        found = logs.get(A)
        assert found is not None
        assert read_all(found) == written[:-1]
        assert found.recovery_point == 50
        assert logs.checkpoints.high_watermarks == {A: 50}


def test_only_log_starts_inside_a_segment_are_written_down(tmp_path: Path) -> None:
    with opened(tmp_path) as logs:
        for partition in (A, B):
            fill(logs.create(partition, None, CONFIG), 5)
        log = logs.get(A)
        assert log is not None
        log.delete_records_before(Offset(3))
        logs.close({})
    assert (tmp_path / "log-start-offset-checkpoint").read_bytes() == b"0\n1\nmy-topic 0 3\n"
    with opened(tmp_path) as logs:
        assert [log.log_start_offset for log in logs] == [3, 0]


def test_a_damaged_checkpoint_means_that_everything_is_scanned(tmp_path: Path) -> None:
    with opened(tmp_path) as logs:
        log = logs.create(A, None, CONFIG)
        written = fill(log, 50)
        log.flush(NOW)
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"0\n7\n")
    with opened(tmp_path) as logs:
        found = logs.get(A)
        assert found is not None
        assert (read_all(found), found.recovery_point) == (written, 0)


def test_a_log_directory_in_use_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(ConfigError, match="in use by another broker"):
        make_logs(tmp_path).acquire(BrokerId(1), CLUSTER)
    with opened(tmp_path):
        pass


def test_another_brokers_or_clusters_log_directory_is_refused_and_unchanged(tmp_path: Path) -> None:
    with opened(tmp_path / "x", tmp_path / "y") as logs:
        assert logs.stored_cluster_id() == CLUSTER
        logs.close({})
    logs = make_logs(tmp_path / "x", tmp_path / "y")
    with pytest.raises(ConfigError, match=r"broker\.id=2, but .* says broker\.id=1"):
        logs.acquire(BrokerId(2), CLUSTER)
    with pytest.raises(ConfigError, match="another cluster's data"):
        logs.acquire(BrokerId(1), "another")
    (tmp_path / "y" / "meta.properties").write_text("version=1\nnode.id=1\n")
    with pytest.raises(ConfigError, match="version=1"):
        logs.acquire(BrokerId(1), CLUSTER)
    (tmp_path / "y" / "meta.properties").unlink()
    with opened(tmp_path / "x", tmp_path / "y"):
        assert "cluster.id=" + CLUSTER in (tmp_path / "y" / "meta.properties").read_text()


def test_kafkas_own_meta_properties_are_understood(tmp_path: Path) -> None:
    text = f"#\n#Sun Nov 15 10:00:00 UTC 2026\ncluster.id={CLUSTER}\nversion=0\nbroker.id=1\n"
    (tmp_path / "meta.properties").write_text(text)
    with opened(tmp_path):
        pass
    assert (tmp_path / "meta.properties").read_text() == text


def test_a_deleted_partition_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    with opened(tmp_path) as logs:
        fill(logs.create(A, None, CONFIG), 5)
        removal = logs.delete(A)
        assert logs.get(A) is None
        assert removal.delay_ms == CONFIG.file_delete_delay_ms
        [name] = [path.name for path in tmp_path.glob("my-topic*")]
        assert name.startswith("my-topic-0.")
        assert name.endswith("-delete")
        assert len(name) == len("my-topic-0.") + 32 + len("-delete")
        assert len(logs.create(A, None, CONFIG).segments) == 1
    with opened(tmp_path) as logs:
        assert len(logs) == 1
    logs = make_logs(tmp_path)
    logs.acquire(BrokerId(1), CLUSTER)
    for left in logs.open_all(config_of):
        left.run()
    assert [path.name for path in tmp_path.glob("my-topic*")] == ["my-topic-0"]
    logs.release()


def test_the_directory_of_a_deleted_partition_fits_a_file_name(tmp_path: Path) -> None:
    long = TopicPartition("t" * 249, 12345)
    with opened(tmp_path) as logs:
        logs.create(long, None, CONFIG)
        logs.delete(long)
    [name] = [path.name for path in tmp_path.glob("ttt*")]
    assert len(name) == 255


def test_a_failed_log_keeps_its_log_directory_from_being_marked_clean(tmp_path: Path) -> None:
    with opened(tmp_path / "x", tmp_path / "y") as logs:
        bad = logs.create(A, None, CONFIG)
        logs.create(B, None, CONFIG)
        bad.failure = DiskFault(bad.disk.log_dir, OSError(5, "Input/output error"))
        logs.close({})
    assert not (tmp_path / "x" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "y" / ".kafka_cleanshutdown").exists()


def test_a_fault_while_closing_affects_only_its_own_log_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "x", tmp_path / "y") as logs:
        bad = logs.create(A, None, CONFIG)
        fill(logs.create(B, None, CONFIG), 5)

        def fails(path: str = "") -> None:
            raise DiskFault(bad.disk.log_dir, OSError(5, f"Input/output error in {path}"))

        monkeypatch.setattr(bad.disk, "sync", fails)
        logs.close({})
    assert not (tmp_path / "x" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "y" / ".kafka_cleanshutdown").exists()


def test_a_failing_log_directory_goes_offline_alone_and_the_last_one_stops_the_broker(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "x", tmp_path / "y") as logs:
        for partition in (A, B, C):
            logs.create(partition, None, CONFIG)
        fault = DiskFault(str(tmp_path / "x"), OSError(5, "Input/output error"))
        assert logs.take_offline(fault) == [A, C]
        assert [log.partition for log in logs] == [B]
        assert logs.create(A, None, CONFIG).disk.log_dir == str(tmp_path / "y")
        with pytest.raises(DiskFault):
            logs.take_offline(DiskFault(str(tmp_path / "y"), OSError(5, "Input/output error")))


def test_what_is_due_is_found_over_all_partitions(tmp_path: Path) -> None:
    with opened(tmp_path) as logs:
        fill(logs.create(A, None, replace(CONFIG, flush_messages=1, retention_ms=-1)), 5)
        old = logs.create(B, None, replace(CONFIG, retention_bytes=0))
        fill(old, 50)
        logs.create(C, None, CONFIG)
        flushes = logs.due_flushes()
        assert [log.partition for log, _ in flushes] == [A, B]
        for log, flush in flushes:
            flush.run()
            log.on_flushed(flush, NOW)
        assert old.recovery_point == old.segments[-1].base_offset
        assert logs.due_flushes() == []
        high_watermarks = {A: Offset(5), B: Offset(50), C: Offset(0)}
        [removal] = logs.due_removals(high_watermarks.__getitem__)
        removal.run()
        assert (old.log_start_offset, old.size_bytes) == (50, 0)
        assert append(old) == (50, 51, -1)


def test_a_recreated_partition_has_no_old_checkpoint_entries_after_a_crash(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as logs:
        old = logs.create(A, None, CONFIG)
        fill(old, 20)
        old.delete_records_before(Offset(15))
        old.first_dirty_offset = 7
        late = logs.checkpoints.writes({A: 20})  # decided before the deletion, written after
        for write in logs.checkpoints.writes({A: 20}):
            write.run()
        logs.delete(A).run()
        written = fill(logs.create(A, None, CONFIG), 5)
        for write in late:
            write.run()
    with opened(tmp_path) as logs:
        new = logs.get(A)
        assert new is not None
        assert read_all(new) == written
        assert (new.log_start_offset, new.log_end_offset, new.first_dirty_offset) == (0, 5, None)
        assert new.recovery_point == 0
        assert A not in logs.checkpoints.high_watermarks


def test_a_recreated_partition_undoes_no_checkpoint_that_is_about_to_be_written(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as logs:
        log = logs.create(A, None, CONFIG)
        fill(logs.create(B, None, CONFIG), 3)
        for write in logs.checkpoints.writes({}):
            write.run()
        fill(log, 20)
        log.flush(NOW)
        pending = logs.checkpoints.recovery_points_beside(log)
        logs.delete(B)
        logs.create(B, None, CONFIG)
        pending.run()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nmy-topic 0 20\n"


def test_a_checkpoint_is_written_by_several_threads_and_the_latest_decision_stays(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as logs:
        log = logs.create(A, None, CONFIG)
        writes = []
        for log.first_dirty_offset in range(100):
            writes.append(logs.checkpoints.compacted_beside(log))
        writes = writes[50:] + writes[:50]
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(lambda write: write.run(), writes)) == [None] * 100
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nmy-topic 0 99\n"


@pytest.mark.parametrize(
    ("ids", "records"),
    [
        ((None, None), (1, 1)),
        ((TOPIC, TOPIC), (1, 1)),
        ((TOPIC, OTHER_TOPIC), (0, 0)),
        ((TOPIC, OTHER_TOPIC), (0, 1)),
        ((TOPIC, None), (0, 1)),  # it may be what was deleted before the topic was made again
    ],
)
def test_two_log_directories_that_hold_the_same_partition_are_refused(
    tmp_path: Path, ids: tuple[uuid.UUID | None, uuid.UUID | None], records: tuple[int, int]
) -> None:
    for name, topic_id, count in zip(("x", "y"), ids, records, strict=True):
        with opened(tmp_path / name) as logs:
            fill(logs.create(A, topic_id, CONFIG), count)
    with (
        pytest.raises(ConfigError, match=r"both .*/x and .*/y hold my-topic-0; move one"),
        opened(tmp_path / "x", tmp_path / "y"),
    ):
        pass


@pytest.mark.parametrize("records", [0, 5])
@pytest.mark.parametrize("ids", [(None, None), (None, TOPIC), (TOPIC, TOPIC)])
def test_a_log_that_never_held_anything_gives_way_to_one_of_the_same_partition(
    tmp_path: Path, ids: tuple[uuid.UUID | None, uuid.UUID | None], records: int
) -> None:
    for name, topic_id, count in zip(("x", "y"), ids, (0, records), strict=True):
        with opened(tmp_path / name) as logs:
            fill(logs.create(A, topic_id, CONFIG), count)
    for _ in range(2):
        with opened(tmp_path / "x", tmp_path / "y") as logs:
            assert [log.log_end_offset for log in logs] == [records]
    left = [path for path in tmp_path.glob("*/my-topic-0") if path.is_dir()]
    assert left == [tmp_path / ("y" if records or ids == (None, TOPIC) else "x") / "my-topic-0"]


def test_a_log_directory_that_fails_at_the_start_is_offline_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "x", tmp_path / "y") as logs:
        logs.create(A, None, CONFIG)
        logs.create(B, None, CONFIG)
    (tmp_path / "y" / "recovery-point-offset-checkpoint").mkdir()  # as good as an I/O error
    (tmp_path / "z").touch()
    with opened(tmp_path / "x", tmp_path / "y", tmp_path / "z") as logs:
        assert [log.partition for log in logs] == [A]
        assert list(logs.offline) == [str(tmp_path / "z"), str(tmp_path / "y")]


def test_a_recovery_point_beyond_the_log_is_lowered_before_anything_is_appended(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as logs:
        log = logs.create(A, None, CONFIG)
        fill(log, 20)
        log.flush(NOW)
        for write in logs.checkpoints.writes({}):
            write.run()
        log.truncate_to(Offset(10), NOW)
    with opened(tmp_path):
        path = tmp_path / "recovery-point-offset-checkpoint"
        assert path.read_text() == "0\n1\nmy-topic 0 10\n"
