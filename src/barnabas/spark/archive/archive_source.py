"""The ranges of offsets to archive next, checked against what is archived already."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import Any, Final, NamedTuple

from barnabas.base.clock import machine_stopwatch
from barnabas.base.ids import TopicPartition
from barnabas.cli.client import ClusterClients, admin, await_all, await_one, find_topic
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import ArchivedTopic, Manifest

_URL_SAFE: Final = str.maketrans("+/", "-_")
# A broker may not know yet a topic that another one just created, or its new leader.
_TRANSIENT: Final = (
    "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION",
)  # fmt: skip
_SETTLED_WITHIN_NS: Final = 5_000_000_000
_PAUSE_S: Final = 0.2
_ANSWERED_WITHIN_S: Final = 60.0


class Bounds(NamedTuple):
    """The readable offsets [start, end) of a partition."""

    start: int
    end: int
    leader_epoch: int = -1


class PartitionRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    partition: TopicPartition
    start: int
    end: int
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        return self.end - self.start


class TopicSnapshot(NamedTuple):
    """A topic at one moment: its id, and the bounds of its partitions."""

    topic_id: str
    bounds: dict[int, Bounds]


def snapshot_topics(cluster: ClusterClients, names: Iterable[str]) -> dict[str, TopicSnapshot]:
    """Raises CommandFailed if a topic is missing, or if a partition has no leader."""
    from confluent_kafka import TopicCollection

    client, metadata = cluster.admin()
    numbers = {name: sorted(find_topic(metadata, name).partitions) for name in names}
    described = _settled(lambda: client.describe_topics(TopicCollection(list(numbers))))
    found = {}
    for name, partitions in numbers.items():
        starts = _offsets(client, name, partitions, admin.OffsetSpec.earliest())
        ends = _offsets(client, name, partitions, admin.OffsetSpec.latest())
        bounds = {
            number: Bounds(start.offset, end.offset, _epoch(end))
            for number, start, end in zip(partitions, starts, ends, strict=True)
        }
        # The client prints ids in base64, Kafka in URL-safe base64.
        topic_id = str(await_one(described[name], name).topic_id).translate(_URL_SAFE)
        found[name] = TopicSnapshot(topic_id, bounds)
    return found


def _offsets(client: Any, topic: str, partitions: Iterable[int], at: object) -> list[Any]:
    from confluent_kafka import IsolationLevel, TopicPartition

    wanted = {TopicPartition(topic, number): at for number in partitions}
    # Up to the last stable offset: records of open transactions are archived later.
    level = IsolationLevel.READ_COMMITTED
    found = _settled(lambda: client.list_offsets(wanted, isolation_level=level))
    asked = {f"{topic} [{each.partition}]": future for each, future in found.items()}
    results = await_all(asked)
    for name, result in zip(asked, results, strict=True):
        if result.offset < 0:
            raise CommandFailed(f"{name}: its leader has not answered")
    return results


def _settled(ask: Callable[[], Mapping[Any, Any]]) -> Mapping[Any, Any]:
    """The futures of a request, which is sent again for some seconds if they are transient errors.

    librdkafka may need many of them for one answer, while a leader is away.
    """
    deadline = machine_stopwatch() + _SETTLED_WITHIN_NS
    while any(map(_is_transient, (found := ask()).values())) and machine_stopwatch() < deadline:
        Event().wait(_PAUSE_S)
    return found


def _is_transient(future: Any) -> bool:
    from confluent_kafka import KafkaException

    try:
        error = future.exception(_ANSWERED_WITHIN_S)
    except TimeoutError:
        return False  # reported where the result is waited for
    if error is None:
        # librdkafka has no error for a partition whose leader went away amid the request.
        return bool(getattr(future.result(), "offset", 0) < 0)
    return isinstance(error, KafkaException) and error.args[0].name() in _TRANSIENT


def snapshot_created(cluster: ClusterClients, name: str) -> TopicSnapshot:
    """The snapshot of a topic that was just created, once the broker that is asked knows it."""
    deadline = machine_stopwatch() + _SETTLED_WITHIN_NS
    while machine_stopwatch() < deadline:
        with suppress(CommandFailed):
            return snapshot_topics(cluster, [name])[name]
        Event().wait(_PAUSE_S)
    return snapshot_topics(cluster, [name])[name]


def _epoch(result: Any) -> int:
    return -1 if result.leader_epoch is None else int(result.leader_epoch)


def decide_ranges(
    manifest: Manifest,
    now: Mapping[str, TopicSnapshot],
    *,
    allow_gaps: bool,
    done: str = "archived",
) -> list[PartitionRange]:
    """The offsets of each partition that the archive lacks; `done` is for messages.

    Raises  CommandFailed if a topic was recreated or truncated since it was archived; and unless
            `allow_gaps`, if records were deleted before they were archived
    """
    ranges = []
    for name, topic in now.items():
        archived = manifest.topics.get(name)
        if archived is not None and archived.topic_id != topic.topic_id:
            raise CommandFailed(
                f"topic {name} was deleted and recreated since it was {done} (its id was"
                f" {archived.topic_id}, now {topic.topic_id}); use another directory"
            )
        for number, bounds in topic.bounds.items():
            partition = TopicPartition(name, number)
            ranges.append(_decide_range(partition, archived, bounds, allow_gaps, done))
    return [each for each in ranges if each.size]


def _decide_range(
    partition: TopicPartition,
    archived: ArchivedTopic | None,
    bounds: Bounds,
    allow_gaps: bool,
    done: str,
) -> PartitionRange:
    before = archived.partitions.get(partition.partition) if archived is not None else None
    if before is None:
        return PartitionRange(partition, *bounds)
    if bounds.end < before.end:
        raise CommandFailed(
            f"{partition} ends at offset {bounds.end} but is {done} up to {before.end}: it was"
            f" truncated since, and no longer has its records from {bounds.end} on"
        )
    if bounds.start > before.end and not allow_gaps:
        raise CommandFailed(
            f"{partition}: the records from {before.end} to {bounds.start} were deleted before they"
            f" were {done}; --allow-gaps records the gap and continues"
        )
    return PartitionRange(partition, max(before.end, bounds.start), bounds.end, bounds.leader_epoch)


def cut(ranges: Sequence[PartitionRange], limit: int) -> list[PartitionRange]:
    """The first part of each range, about `limit` offsets in total."""
    left, sizes = limit, {}
    # Smallest first: a range that needs less than its share leaves the rest to the others.
    for position, each in enumerate(sorted(ranges, key=lambda each: each.size)):
        sizes[each.partition] = min(each.size, max(1, left // (len(ranges) - position)))
        left -= sizes[each.partition]
    return [each._replace(end=each.start + sizes[each.partition]) for each in ranges]
