"""The commit log of a query: one decision per micro-batch, of which the first wins.

A micro-batch is first decided, then published. The decision fixes for good its records, producer
ids and sequence numbers. Every reader of the log derives the same history: a second decision about
a micro-batch, by a driver that does not know it was replaced, has no effect. Only a partition that
can no longer accept its sequence numbers gets others, by a revision of the decision; again the
first wins. The entry `published` holds all that the next decision needs, so the entries before it
can be deleted.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.spark.sink.batch_sender import ProducerId
from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.user_errors import SparkFailure

NO_BATCH: Final = -1
MOST_ENTRY_BYTES: Final = 15 * 1024 * 1024


class Staged(NamedTuple):
    """The output of one task: its producer's batches in these offsets of the staging topic."""

    partition: int
    producer_id: int
    start: int
    end: int
    targets: tuple[TopicPartition, ...]  # the partition of each batch, in order


class Share(NamedTuple):
    """The records of a micro-batch for one partition, from `base_sequence` on.

    None of them has an offset before `start_offset`. `own` is the partition's own producer, if it
    differs from that of the query.
    """

    partition: TopicPartition
    base_sequence: int
    record_count: int
    start_offset: int
    own: ProducerId | None = None


class Decided(NamedTuple):
    """The decision about a micro-batch: its tasks' output, and each partition's share."""

    batch_id: int
    producer: ProducerId
    tasks: tuple[Staged, ...]
    shares: tuple[Share, ...]
    revision: int = 0

    def share_of(self, partition: TopicPartition) -> Share:
        return next(each for each in self.shares if each.partition == partition)

    def revised(self, share: Share) -> "Decided":
        """The next revision, with another share for one partition."""
        shares = tuple(share if each.partition == share.partition else each for each in self.shares)
        return self._replace(shares=shares, revision=self.revision + 1)


class Published(NamedTuple):
    """The micro-batch is completely in its topics; `sequences` are the next ones.

    `own` are the producers of partitions that do not use the query's.
    """

    batch_id: int
    producer: ProducerId
    sequences: Mapping[TopicPartition, int]
    own: Mapping[TopicPartition, ProducerId] = {}


Entry = Decided | Published


@dataclass
class QueryHistory:
    """The state of a query by its commit log, replayed entry by entry."""

    decided: Decided | None = None
    published_id: int = NO_BATCH
    producer: ProducerId | None = None
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    own: dict[TopicPartition, ProducerId] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Published):
            if entry.batch_id > self.published_id:
                self.published_id = entry.batch_id
                self.producer, self.sequences = entry.producer, dict(entry.sequences)
                self.own = dict(entry.own)
        elif entry.batch_id > self.published_id and self._comes_next(entry):
            self.decided = entry

    def _comes_next(self, entry: Decided) -> bool:
        if self.decided is None or entry.batch_id != self.decided.batch_id:
            return entry.batch_id > self._decided_id
        return entry.revision == self.decided.revision + 1

    @property
    def unpublished(self) -> Decided | None:
        """The micro-batch that is decided and possibly published in part."""
        return self.decided if self._decided_id > self.published_id else None

    @property
    def _decided_id(self) -> int:
        return NO_BATCH if self.decided is None else self.decided.batch_id


# -- encoding ----------------------------------------------------------------


def encode(entry: Entry) -> bytes:
    """Raises  SparkFailure if the entry is too large for one record"""
    topics: dict[str, int] = {}

    def number(partition: TopicPartition) -> tuple[int, int]:
        return topics.setdefault(partition.topic, len(topics)), partition.partition

    content: dict[str, Any] = {"batch": entry.batch_id, "producer": entry.producer}
    if isinstance(entry, Published):
        content["next"] = [(*number(each), next_) for each, next_ in entry.sequences.items()]
        content["own"] = [(*number(each), *own) for each, own in entry.own.items()]
    else:
        content["revision"] = entry.revision
        content["tasks"] = [
            (*task[:-1], [number(to) for to in task.targets]) for task in entry.tasks
        ]
        content["shares"] = [(*number(share.partition), *share[1:]) for share in entry.shares]
    content["topics"] = list(topics)
    encoded = zlib.compress(json.dumps(content, separators=(",", ":")).encode())
    if len(encoded) > MOST_ENTRY_BYTES:
        raise SparkFailure(
            f"micro-batch {entry.batch_id} is too large for an exactly-once write; limit it, for"
            " example with maxOffsetsPerTrigger"
        )
    return encoded


def decode(encoded: bytes) -> Entry:
    """Raises  SparkFailure if the bytes are not an entry"""
    try:
        content = json.loads(zlib.decompress(encoded))
        topics = content["topics"]
        batch_id, producer = content["batch"], ProducerId(*content["producer"])

        def partition(topic: int, number: int) -> TopicPartition:
            return TopicPartition(topics[topic], number)

        if "next" in content:
            sequences = {partition(*each[:2]): each[2] for each in content["next"]}
            own = {partition(*each[:2]): ProducerId(*each[2:]) for each in content.get("own", ())}
            return Published(batch_id, producer, sequences, own)
        tasks = tuple(
            Staged(number, producer_id, start, end, tuple(partition(*target) for target in targets))
            for number, producer_id, start, end, targets in content["tasks"]
        )
        shares = tuple(
            Share(partition(*each[:2]), *each[2:5], *(ProducerId(*own) for own in each[5:] if own))
            for each in content["shares"]
        )
        return Decided(batch_id, producer, tasks, shares, content.get("revision", 0))
    except (zlib.error, ValueError, KeyError, TypeError, IndexError) as failure:
        raise SparkFailure(f"the commit log of the query cannot be read: {failure}") from None
