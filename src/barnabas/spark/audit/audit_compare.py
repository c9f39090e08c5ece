"""The audit of replicas: each on its own, and against the longest of its partition."""

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
from barnabas.spark.audit.audit_files import ReplicaFiles
from barnabas.spark.audit.audit_findings import (
    AuditCheck,
    AuditFinding,
    AuditResult,
    ComparedRange,
    by_partition,
)
from barnabas.spark.audit.audit_scan import read_all_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit_replicas(spark: "SparkSession", replicas: Sequence[ReplicaFiles]) -> AuditResult:
    """Read all segments once and run every check."""
    segments = [segment for replica in replicas for segment in replica.segments]
    batches = read_all_batches(spark, segments).persist()
    try:
        totals = sum_up(batches)
        # Segments that retention deleted before they were read cannot be compared.
        audited = AuditResult([each.without_removed() for each in replicas], totals)
        audited.findings += [finding for replica in replicas for finding in _noted(replica)]
        audited.findings += damaged(batches)
        audited.findings += disordered(batches)
        audited.findings += epochs(batches, replicas)
        ranges = list(decide_ranges(audited))
        audited.findings += different(spark, batches, ranges, audited)
        audited.findings += decide_lost(audited)
        audited.notes += decide_not_in_sync(audited)
        audited.history = history(batches, audited.totals.values())
    finally:
        batches.unpersist()
    return audited


def decide_ranges(audited: AuditResult) -> Iterator[ComparedRange]:
    """The range in which each replica must equal the longest one of its partition.

    It begins at the first offset that both have and that neither has cleaned, and ends at the high
    watermark or at the replica's own end.
    """
    for replicas in by_partition(audited.replicas).values():
        reference = max(replicas, key=lambda each: (audited.totals_of(each).end, -each.broker))
        high_watermark = max((each.high_watermark or 0 for each in replicas), default=0)
        for replica in replicas:
            if replica is not reference:
                both = (replica, reference)
                start = max(max(each.first_offset, each.cleaned_to) for each in both)
                end = min(high_watermark, audited.totals_of(replica).end)
                yield ComparedRange(replica, reference, start, max(start, end))


def decide_lost(audited: AuditResult) -> Iterator[AuditFinding]:
    """Findings for replicas that end before their own high watermark: they lost records."""
    for partition, replicas in by_partition(audited.replicas).items():
        ids = {each.topic_id for each in replicas if each.topic_id is not None}
        for replica in replicas:
            end, own = audited.totals_of(replica).end, replica.high_watermark or 0
            if end < own:
                what = f"ends at {end} but its high watermark is {own}: committed records are lost"
                yield AuditFinding(AuditCheck.REPLICAS, partition, replica.broker, end, what)
            if len(ids) > 1:
                what = f"has topic id {replica.topic_id}, other replicas have another"
                yield AuditFinding(AuditCheck.REPLICAS, partition, replica.broker, None, what)


def decide_not_in_sync(audited: AuditResult) -> Iterator[str]:
    """Notes on replicas that end before the high watermark of others, but not before their own."""
    for partition, replicas in by_partition(audited.replicas).items():
        committed = max(each.high_watermark or 0 for each in replicas)
        for replica in replicas:
            if (replica.high_watermark or 0) <= (end := audited.totals_of(replica).end) < committed:
                yield (
                    f"{partition} on broker {replica.broker} ends at {end} and is not in sync: the"
                    f" high watermark is {committed}"
                )


def _noted(replica: ReplicaFiles) -> Iterator[AuditFinding]:
    for what in replica.unreadable:
        yield AuditFinding(AuditCheck.FILES, replica.partition, replica.broker, None, what)
