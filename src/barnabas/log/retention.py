"""The segments of a log that retention deletes: a pure decision."""

from collections.abc import Sequence

from barnabas.config.topic_config import TopicConfig
from barnabas.log.segment.segment import Segment


def decide_deletable(
    segments: Sequence[Segment],
    config: TopicConfig,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> list[Segment]:
    """The oldest segments that lie before the log's start, or exceed retention by size or age.

    No segment that reaches beyond the high watermark is among them. The active one, the last, is
    only if it has records and all of them may go.
    """
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    for number, segment in enumerate(segments):
        is_active = segment is segments[-1]
        by_start = not is_active and segment.end_offset <= log_start_offset
        by_size = config.deletes and config.retention_bytes >= 0 and excess >= segment.size
        by_time = config.deletes and 0 <= config.retention_ms < now_ms - segment.largest_timestamp
        if (
            segment.end_offset > high_watermark
            or (is_active and not segment.size)
            or not (by_start or by_size or by_time)
        ):
            return list(segments[:number])
        excess -= segment.size
    return list(segments)
