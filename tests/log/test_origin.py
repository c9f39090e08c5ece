"""Gaps in a log are compaction's or losses: that is known from the origin of its files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.ids import BrokerId
from barnabas.base.randomness import Random
from barnabas.disk.disk import RealDisk
from barnabas.log.log import Log
from barnabas.log.log_dir import RECOVERY_POINT
from barnabas.log.logs import Logs
from tests.log.batches import CONFIG, NOW, PARTITION, fill, open_partition, read_all

COMPACTED = replace(CONFIG, cleanup_policy=("compact",), segment_bytes=300)


class StoppedClock:
    def now_ms(self) -> int:
        return NOW


@contextmanager
def opened(folder: Path) -> Iterator[Logs]:
    """Logs that are in use, and let go uncleanly."""
    logs = Logs([RealDisk(str(folder))], clock=StoppedClock(), random=Random(7))
    logs.acquire(BrokerId(1), "lkc-abcdefghijklmnopqr")
    try:
        logs.open_all(lambda _: COMPACTED)
        yield logs
    finally:
        logs.release()


def log_of(logs: Logs) -> Log:
    found = logs.get(PARTITION)
    assert found is not None
    return found


def known(folder: Path) -> list[str]:
    """The partitions whose recovery point is on disk."""
    path = folder / RECOVERY_POINT
    return path.read_text().splitlines()[2:] if path.exists() else []


def gathered(tmp_path: Path) -> list[bytes]:
    """The batches that a follower gets of a log that its leader has compacted."""
    return fill(open_partition(tmp_path / "leader"), 60)[::3]


@pytest.mark.parametrize("loses_all", [False, True])
def test_a_follower_that_lost_an_end_before_its_first_checkpoint_has_no_hole(
    tmp_path: Path, loses_all: bool
) -> None:
    batches, folder = gathered(tmp_path), tmp_path / "follower"
    with opened(folder) as logs:
        log = logs.create(PARTITION, None, COMPACTED)
        for batch in batches:
            log.append_as_follower(batch, NOW)
        second = log.segments[1]
    path = folder / str(PARTITION) / f"{second.base_offset:020}.log"
    path.write_bytes(b"" if loses_all else path.read_bytes()[: -len(batches[0])])
    with opened(folder) as logs:
        log = log_of(logs)
        found = read_all(log)
        assert found == batches[: len(found)]
        assert log.log_end_offset == (second.base_offset if loses_all else second.end_offset - 3)


def test_a_compacted_log_has_a_recovery_point_on_disk_before_its_second_segment(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as logs:
        log = logs.create(PARTITION, None, COMPACTED)
        for count in range(1, 20):
            fill(log, 1)
            assert known(tmp_path) == ([] if len(log.segments) == 1 else ["orders 0 0"]), count
        assert len(log.segments) > 1


def test_a_log_that_is_never_compacted_is_written_down_with_the_others_only(tmp_path: Path) -> None:
    with opened(tmp_path) as logs:
        log = logs.create(PARTITION, None, replace(COMPACTED, cleanup_policy=("delete",)))
        fill(log, 20)
        assert len(log.segments) > 1
        assert known(tmp_path) == []


def test_a_compacted_log_of_unknown_origin_stays_whole_until_it_is_flushed(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path)
    batches = fill(log, 120)
    second = log.segments[1]
    path = tmp_path / str(log.partition) / f"{second.base_offset:020}.log"
    path.write_bytes(path.read_bytes()[len(batches[0]) : -len(batches[0])])
    for _ in range(3):
        with opened(tmp_path) as logs:
            assert log_of(logs).log_end_offset == 120
            for write in logs.checkpoints.writes({}):
                write.run()
            assert known(tmp_path) == []
    with opened(tmp_path) as logs:
        for log, flush in logs.due_flushes():
            flush.run()
            log.on_flushed(flush, NOW)
        for write in logs.checkpoints.writes({}):
            write.run()
        assert known(tmp_path) == [f"orders 0 {log.segments[-1].base_offset}"]
