"""What of a cluster's topics is to be archived next: ranges of offsets, checked against before."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.client import Cluster, admin, await_all, await_one, find_topic
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import ArchivedTopic, Manifest, Partition

_URL_SAFE: Final = str.maketrans("+/", "-_")


class Bounds(NamedTuple):
    """A partition as it is now: the offsets [start, end) can be read."""

    start: int
    end: int
    leader_epoch: int = -1


class Range(NamedTuple):
    """Offsets [start, end) of one partition."""

    partition: Partition
    start: int
    end: int
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        return self.end - self.start


class TopicNow(NamedTuple):
    """A topic as the cluster has it."""

    topic_id: str
    bounds: dict[int, Bounds]


def topics_now(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicNow]:
    """Raises CommandFailed if a topic is missing, or if a partition has no leader."""
    from confluent_kafka import TopicCollection

    client, metadata = cluster.admin()
    numbers = {name: sorted(find_topic(metadata, name).partitions) for name in names}
    described = client.describe_topics(TopicCollection(list(numbers)))
    found = {}
    for name, partitions in numbers.items():
        starts = _offsets(client, name, partitions, admin.OffsetSpec.earliest())
        ends = _offsets(client, name, partitions, admin.OffsetSpec.latest())
        bounds = {
            number: Bounds(start.offset, end.offset, _epoch(end))
            for number, start, end in zip(partitions, starts, ends, strict=True)
        }
        # The client writes ids in plain base64, Kafka in that for URLs.
        topic_id = str(await_one(described[name], name).topic_id).translate(_URL_SAFE)
        found[name] = TopicNow(topic_id, bounds)
    return found


def _offsets(client: Any, topic: str, partitions: Iterable[int], at: object) -> list[Any]:
    from confluent_kafka import IsolationLevel, TopicPartition

    wanted = {TopicPartition(topic, number): at for number in partitions}
    # Up to the last stable offset: what a transaction may still take back is archived later.
    return await_all(client.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED))


def _epoch(result: Any) -> int:
    return -1 if result.leader_epoch is None else int(result.leader_epoch)


def decide_ranges(
    manifest: Manifest, now: Mapping[str, TopicNow], *, allow_gaps: bool
) -> list[Range]:
    """What the cluster has and the archive has not, partition by partition.

    Raises  CommandFailed if a topic was made anew, or truncated, since it was archived; and unless
            `allow_gaps`, if records were deleted before they were archived
    """
    ranges = []
    for name, topic in now.items():
        archived = manifest.topics.get(name)
        if archived is not None and archived.topic_id != topic.topic_id:
            raise CommandFailed(
                f"topic {name} was deleted and made again since it was archived (its id was"
                f" {archived.topic_id}, now {topic.topic_id}); archive it anew, to another folder"
            )
        for number, bounds in topic.bounds.items():
            ranges.append(_decide_range(Partition(name, number), archived, bounds, allow_gaps))
    return [each for each in ranges if each.size]


def _decide_range(
    partition: Partition, archived: ArchivedTopic | None, bounds: Bounds, allow_gaps: bool
) -> Range:
    before = archived.partitions.get(partition.number) if archived is not None else None
    if before is None:
        return Range(partition, *bounds)
    if bounds.end < before.end:
        raise CommandFailed(
            f"{partition} ends at offset {bounds.end}, but is archived up to {before.end}: it was"
            " truncated since, and what was archived from there on is not in it any more"
        )
    if bounds.start > before.end and not allow_gaps:
        raise CommandFailed(
            f"{partition}: the records from {before.end} to {bounds.start} were deleted before they"
            " were archived; --allow-gaps notes that in the manifest and goes on"
        )
    return Range(partition, max(before.end, bounds.start), bounds.end, bounds.leader_epoch)


def cut(ranges: Sequence[Range], limit: int) -> list[Range]:
    """The beginning of each range, so that together they have about `limit` offsets."""
    left, sizes = limit, {}
    # The smallest first: what one does not use is for the others.
    for position, each in enumerate(sorted(ranges, key=lambda each: each.size)):
        sizes[each.partition] = min(each.size, max(1, left // (len(ranges) - position)))
        left -= sizes[each.partition]
    return [each._replace(end=each.start + sizes[each.partition]) for each in ranges]
