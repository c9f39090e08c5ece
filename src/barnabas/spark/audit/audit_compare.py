"""Audits replicas: each in itself, and with the longest of its partition."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.spark.audit.audit_checks import (
    damaged,
    different,
    disordered,
    epochs,
    history,
    sum_up,
)
from barnabas.spark.audit.audit_files import Replica
from barnabas.spark.audit.audit_findings import Audited, Finding, Kind, Range, by_partition
from barnabas.spark.audit.audit_scan import read_all_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit_replicas(spark: "SparkSession", replicas: Sequence[Replica]) -> Audited:
    """Read all segments once, and compare."""
    segments = [segment for replica in replicas for segment in replica.segments]
    batches = read_all_batches(spark, segments).persist()
    try:
        held = sum_up(batches)
        # What was gone by the time it was read cannot be compared.
        audited = Audited([each.without_removed() for each in replicas], held)
        audited.findings += [finding for replica in replicas for finding in _noted(replica)]
        audited.findings += damaged(batches)
        audited.findings += disordered(batches)
        audited.findings += epochs(batches, replicas)
        ranges = list(decide_ranges(audited))
        audited.findings += different(spark, batches, ranges, audited)
        audited.findings += decide_lost(audited)
        audited.history = history(batches, audited.held.values())
    finally:
        batches.unpersist()
    return audited


def decide_ranges(audited: Audited) -> Iterator[Range]:
    """For each replica but the longest of its partition: where it must equal that one.

    From the first offset that both have, or that compaction has reached in none, up to the high
    watermark or the replica's own end.
    """
    for replicas in by_partition(audited.replicas).values():
        reference = max(replicas, key=lambda each: (audited.held_by(each).end, -each.broker))
        high_watermark = max((each.high_watermark or 0 for each in replicas), default=0)
        for replica in replicas:
            if replica is not reference:
                both = (replica, reference)
                start = max(max(each.first_offset, each.cleaned_to) for each in both)
                end = min(high_watermark, audited.held_by(replica).end)
                yield Range(replica, reference, start, max(start, end))


def decide_lost(audited: Audited) -> Iterator[Finding]:
    """A replica that ends before what it once knew to be committed has lost it.

    One that merely ends before what others know was not in sync, and is noted.
    """
    for partition, replicas in by_partition(audited.replicas).items():
        committed = max(each.high_watermark or 0 for each in replicas)
        ids = {each.topic_id for each in replicas if each.topic_id is not None}
        for replica in replicas:
            end, own = audited.held_by(replica).end, replica.high_watermark or 0
            if end < own:
                what = f"ends at {end}, but {own} was committed: the records between are lost"
                yield Finding(Kind.REPLICAS, partition, replica.broker, end, what)
            elif end < committed:
                audited.notes.append(
                    f"{partition} on broker {replica.broker} ends at {end} and is behind: up to"
                    f" {committed} is committed"
                )
            if len(ids) > 1:
                what = f"is of the topic with id {replica.topic_id}, others are of another"
                yield Finding(Kind.REPLICAS, partition, replica.broker, None, what)


def _noted(replica: Replica) -> Iterator[Finding]:
    for what in replica.unreadable:
        yield Finding(Kind.FILES, replica.partition, replica.broker, None, what)
