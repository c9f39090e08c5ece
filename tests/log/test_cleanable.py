"""Cleanable logs: which one is compacted, how much of it, and when it must be."""

from dataclasses import replace
from pathlib import Path

from barnabas.base.ids import Offset
from barnabas.base.randomness import Random
from barnabas.log.cleaner.cleanable import (
    decide_cleanable,
    decide_filthiest,
    decide_first_dirty_offset,
)
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from tests.log.batches import NOW, PARTITION, open_partition
from tests.log.compaction import COMPACT, append_pairs, choose, clean

VALUE = "value" * 10


def filled(folder: Path, count: int = 40) -> Log:
    log = open_partition(folder, COMPACT)
    for n in range(count):
        append_pairs(log, [(f"key-{n % 4}", VALUE)], timestamp=NOW + n)
    log.flush(NOW)
    assert len(log.segments) > 4
    return log


def test_the_active_segment_is_never_cleaned(tmp_path: Path) -> None:
    log = filled(tmp_path)
    chosen = choose(log)
    assert chosen.first_uncleanable_offset == log.segments[-1].base_offset
    assert chosen.cleanable_bytes == sum(segment.size for segment in log.segments[:-1])
    assert (chosen.first_dirty_offset, chosen.clean_bytes) == (0, 0)
    assert chosen.cleanable_ratio == 1.0


def test_nothing_at_or_above_the_last_stable_offset_is_cleaned(tmp_path: Path) -> None:
    log = filled(tmp_path)
    _, second, third, *_ = log.segments
    for stable in (second.end_offset, third.end_offset - 1):
        chosen = decide_cleanable(log, stable, NOW)
        assert chosen.first_uncleanable_offset == third.base_offset
    assert not decide_cleanable(log, 1, NOW).is_due


def test_only_flushed_records_are_cleaned(tmp_path: Path) -> None:
    log = filled(tmp_path)
    second = log.segments[1]
    log.recovery_point = Offset(second.base_offset)
    assert choose(log).first_uncleanable_offset == second.base_offset


def test_what_is_younger_than_the_minimum_lag_stays(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.config = replace(COMPACT, min_compaction_lag_ms=1000)
    third = log.segments[2]
    now_ms = third.largest_timestamp + 999
    assert choose(log, now_ms).first_uncleanable_offset == third.base_offset
    assert choose(log, now_ms + 1).first_uncleanable_offset == log.segments[3].base_offset


def test_a_log_is_due_by_its_dirty_ratio_or_when_the_maximum_lag_is_exceeded(
    tmp_path: Path,
) -> None:
    log = filled(tmp_path)
    log.config = replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=500)
    assert not choose(log, NOW + 500).is_due
    late = choose(log, NOW + 501)
    assert late.is_due
    assert late.delay_ms == 1
    log.config = replace(COMPACT, min_cleanable_dirty_ratio=0.5)
    assert choose(log).is_due
    clean(log)
    assert not choose(log).is_due
    assert choose(log).cleanable_bytes == 0


def test_the_filthiest_of_the_logs_that_are_due_comes_first(tmp_path: Path) -> None:
    partly, wholly = filled(tmp_path / "a"), filled(tmp_path / "b")
    partly.first_dirty_offset = 20
    candidates = [choose(partly), choose(wholly)]
    assert decide_filthiest(candidates) == candidates[1]
    assert decide_filthiest(candidates[:1]) == candidates[0]
    assert decide_filthiest([]) is None


def test_a_first_dirty_offset_outside_the_log_is_its_start(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert decide_first_dirty_offset(log) == 0
    for known, expected in ((41, 0), (40, 40), (17, 17)):
        log.first_dirty_offset = known
        assert decide_first_dirty_offset(log) == expected
    log.delete_records_before(Offset(30))
    assert decide_first_dirty_offset(log) == 30


class StoppedClock:
    def now_ms(self) -> int:
        return NOW


def test_how_far_a_log_was_compacted_is_known_after_a_restart_until_it_is_deleted(
    tmp_path: Path,
) -> None:
    disk = open_partition(tmp_path, COMPACT).disk

    def opened() -> tuple[Logs, Log]:
        logs = Logs([disk], clock=StoppedClock(), random=Random(1))
        logs.open_all(lambda topic: COMPACT)
        log = logs.get(PARTITION)
        assert log is not None
        return logs, log

    logs, log = opened()
    for n in range(40):
        append_pairs(log, [(f"key-{n % 4}", VALUE)])
    clean(log)
    logs.checkpoints.compacted_beside(log).run()
    assert log.first_dirty_offset == log.segments[-1].base_offset
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    assert checkpoint.read_text() == f"0\n1\norders 0 {log.first_dirty_offset}\n"
    logs, again = opened()
    assert again.first_dirty_offset == log.first_dirty_offset
    again.truncate_to(Offset(3), NOW)
    logs.checkpoints.compacted_beside(again).run()
    assert checkpoint.read_text() == f"0\n1\norders 0 {again.log_end_offset}\n"
    logs.delete(PARTITION)
    for write in logs.checkpoints.writes({}):
        write.run()
    assert checkpoint.read_text() == "0\n0\n"
