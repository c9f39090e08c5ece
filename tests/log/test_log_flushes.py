"""When a log is flushed, what of it, and what a flush proves."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from barnabas.base.errors import DiskFault
from barnabas.base.ids import Offset
from barnabas.log.log import Log
from tests.log.batches import CONFIG, NOW, fill, open_partition

FOLDER = "orders-0"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_partition(tmp_path)


def test_a_flush_that_a_truncation_overtook_proves_nothing(log: Log) -> None:
    fill(log, 10)
    flush = log.start_flush()
    log.truncate_to(Offset(5), NOW)
    fill(log, 10)
    flush.run()
    log.on_flushed(flush, NOW)
    assert log.recovery_point == 0
    log.flush(NOW)
    assert log.recovery_point == 15


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_each_of_several_flushes_proves_its_own_part(log: Log, order: tuple[int, ...]) -> None:
    flushes = []
    for _ in range(3):
        fill(log, 5)
        flushes.append(log.start_flush())
    for earlier, later in pairwise(flushes):
        assert set(earlier.paths) <= set(later.paths)
    proven = 0
    for number in order:
        flushes[number].run()
        log.on_flushed(flushes[number], NOW)
        proven = max(proven, flushes[number].offset)
        assert log.recovery_point == proven
    assert log.start_flush().paths == []


def test_flush_is_due_by_messages_and_by_time(log: Log) -> None:
    log.config = replace(CONFIG, flush_messages=3, flush_ms=1000)
    assert not log.is_flush_due(NOW + 5000)
    fill(log, 2)
    assert not log.is_flush_due(NOW + 999)
    assert log.is_flush_due(NOW + 1000)
    fill(log, 1)
    assert log.is_flush_due(NOW)
    assert log.unflushed_messages == 3
    log.flush(NOW)
    assert (log.unflushed_messages, log.recovery_point) == (0, 3)
    assert log.start_flush().paths == []


def test_a_rolled_segment_is_flushed_with_its_indexes_and_snapshot(log: Log) -> None:
    fill(log, 5)
    log.flush(NOW)
    states = [log.is_rolled_unflushed]
    fill(log, 5)
    log.roll(NOW)
    fill(log, 5)
    states.append(log.is_rolled_unflushed)
    flush = log.start_flush(rolled_only=True)
    rolled = {f"{FOLDER}/{0:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    assert rolled <= set(flush.paths)
    assert f"{FOLDER}/{10:020}.log" not in flush.paths
    flush.run()
    log.on_flushed(flush, NOW)
    states.append(log.is_rolled_unflushed)
    assert (log.recovery_point, states) == (10, [False, True, False])
    assert {f"{FOLDER}/{10:020}{suffix}" for suffix in (".log", ".snapshot", ".txnindex")} == set(
        log.start_flush().paths
    )


def test_indexes_trimmed_after_the_last_append_are_flushed_too(log: Log) -> None:
    fill(log, 5)
    log.flush(NOW)
    log.roll(NOW)
    assert f"{FOLDER}/{0:020}.index" in log.start_flush().paths


def test_a_log_whose_flush_failed_takes_no_more(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records may be lost by then; a second fsync may succeed all the same."""

    def fail(paths: Sequence[str], /) -> None:
        raise DiskFault(FOLDER, OSError(errno.EIO, "fsync failed"))

    fill(log, 1)
    with monkeypatch.context() as patched:
        patched.setattr(log.disk, "sync_all", fail)
        with pytest.raises(DiskFault) as failed:
            log.flush(NOW)
    assert log.failure is failed.value
    with pytest.raises(DiskFault):
        log.flush(NOW)
    with pytest.raises(DiskFault):
        fill(log, 1)
    assert log.recovery_point == 0
