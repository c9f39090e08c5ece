"""The choice of the log to compact next, and of its cleanable part: pure decisions."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.log.cleaner.cleaner import CleaningPlan
from barnabas.log.log import Log
from barnabas.log.segment.segment import TRANSACTION_INDEX, Segment

_NO_LIMIT: Final = 2**63 - 1


class LogToClean(NamedTuple):
    """How dirty a log is. Its segments below `first_uncleanable_offset` may be cleaned."""

    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int  # where a segment begins
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int  # for how long `max.compaction.lag.ms` has been exceeded

    @property
    def cleanable_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def most_keys(self) -> int:
        """No more keys than offsets can be new."""
        return self.first_uncleanable_offset - self.first_dirty_offset

    @property
    def is_due(self) -> bool:
        if self.delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def decide_first_dirty_offset(log: Log) -> int:
    """Return the end of the compacted part, or the log's start if the known end is impossible.

    The known end can lie before the log's start after records were deleted, or beyond its end
    after damage: then the whole log counts as dirty.
    """
    known = log.first_dirty_offset
    if known is None or not log.log_start_offset <= known <= log.log_end_offset:
        return log.log_start_offset
    return known


def decide_cleanable(log: Log, last_stable_offset: int, now_ms: int) -> LogToClean:
    """Return how much of a log may be compacted now.

    The cleanable part never includes the active segment, records that are undecided or not
    replicated, records younger than `min.compaction.lag.ms`, or unflushed records: a power failure
    could lose those, and the older values that they replace would be gone for good.
    """
    first_dirty = decide_first_dirty_offset(log)
    *resting, active = log.segments
    limit = min(last_stable_offset, log.recovery_point)
    first_uncleanable = active.base_offset
    youngest_ms = now_ms - log.config.min_compaction_lag_ms
    for segment in resting:
        is_young = log.config.min_compaction_lag_ms > 0 and segment.largest_timestamp > youngest_ms
        if segment.end_offset > limit or (is_young and segment.end_offset > first_dirty):
            first_uncleanable = segment.base_offset
            break
    return LogToClean(
        log,
        first_dirty,
        first_uncleanable,
        sum(s.size for s in log.segments if s.base_offset < min(first_dirty, first_uncleanable)),
        sum(s.size for s in _between(resting, first_dirty, first_uncleanable)),
        _delay_ms(log, _between(resting, first_dirty, active.base_offset), now_ms),
    )


def decide_filthiest(candidates: Iterable[LogToClean]) -> LogToClean | None:
    """The log to compact next: the one with the greatest dirty share."""
    due = (candidate for candidate in candidates if candidate.is_due)
    return max(due, key=lambda candidate: candidate.cleanable_ratio, default=None)


def plan_cleaning(chosen: LogToClean, now_ms: int) -> CleaningPlan:
    """Return all that a thread needs to compact the log without access to it."""
    log, first_dirty = chosen.log, chosen.first_dirty_offset
    segments = [s for s in log.segments if s.base_offset < chosen.first_uncleanable_offset]
    first = _between(segments, first_dirty, chosen.first_uncleanable_offset)[0]
    return CleaningPlan(
        disk=log.disk,
        directory=log.directory,
        config=log.config,
        segments=segments,
        first_dirty_offset=first_dirty,
        first_dirty_position=first.offset_index.position_for(first_dirty),
        first_uncleanable_offset=chosen.first_uncleanable_offset,
        transaction_indexes=[segment.path(TRANSACTION_INDEX) for segment in log.segments],
        last_records=log.producers.last_records(),
        now_ms=now_ms,
    )


def _between(segments: Iterable[Segment], start: int, end: int) -> list[Segment]:
    """Those of the segments that hold offsets from `start` on and begin before `end`."""
    return [s for s in segments if s.end_offset > start and s.base_offset < end]


def _delay_ms(log: Log, dirty: Iterable[Segment], now_ms: int) -> int:
    if log.config.max_compaction_lag_ms == _NO_LIMIT:
        return 0
    times = (segment.first_timestamp for segment in dirty if segment.size)
    earliest = min((time for time in times if time > 0), default=now_ms)
    return max(0, now_ms - log.config.max_compaction_lag_ms - earliest)
