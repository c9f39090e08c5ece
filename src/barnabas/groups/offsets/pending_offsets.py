"""The pending offsets of open transactions: they count once the transaction commits.

Of a transactional and another commit for one partition the later one in the log wins, even if the
transaction ends after the other one was written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from barnabas.base.ids import TopicPartition
from barnabas.groups.records.offset_record import CommittedOffset, OffsetCommit

# By producer: the order of its commit, and the offset; None if a later commit replaced it.
ByProducer: TypeAlias = dict[int, tuple[int, CommittedOffset | None]]


@dataclass(slots=True)
class PendingOffsets:
    """Groups and partitions without pending offsets are not kept."""

    _groups: dict[str, dict[TopicPartition, ByProducer]] = field(default_factory=dict)
    _written: dict[int, dict[tuple[str, TopicPartition], None]] = field(default_factory=dict)
    _order: Iterator[int] = field(default_factory=count)

    def __contains__(self, group_id: str) -> bool:
        """True if an open transaction has written offsets of the group."""
        return group_id in self._groups

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return TopicPartition(topic, partition) in self._groups.get(group_id, {})

    def partitions(self, group_id: str) -> list[TopicPartition]:
        return list(self._groups.get(group_id, ()))

    def groups(self) -> list[str]:
        return list(self._groups)

    def put(self, producer_id: int, commit: OffsetCommit) -> None:
        partition = TopicPartition(commit.topic, commit.partition)
        pending = self._groups.setdefault(commit.group_id, {}).setdefault(partition, {})
        pending[producer_id] = (next(self._order), commit.value)
        self._written.setdefault(producer_id, {})[commit.group_id, partition] = None

    def replace(self, group_id: str, partition: TopicPartition) -> None:
        """A later offset was committed: those pending for the partition will not count."""
        _replace_older(self._groups.get(group_id, {}).get(partition, {}), next(self._order))

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """The offset was deleted: nothing is pending for the partition any more."""
        group = self._groups.get(group_id, {})
        if group.pop(partition, None) is not None and not group:
            del self._groups[group_id]

    def end(self, producer_id: int, is_committed: bool) -> list[OffsetCommit]:
        """End the producer's transaction; returns the offsets that count from now on."""
        counts: list[OffsetCommit] = []
        for group_id, partition in self._written.pop(producer_id, {}):
            pending = self._groups.get(group_id, {}).get(partition, {})
            order, value = pending.pop(producer_id, (0, None))
            if value is not None and is_committed:
                _replace_older(pending, order)
                counts.append(OffsetCommit(group_id, *partition, value))
            if not pending:
                self.remove(group_id, partition)
        return counts


def _replace_older(pending: ByProducer, than: int) -> None:
    for producer_id, (order, _) in pending.items():
        if order < than:
            pending[producer_id] = (order, None)
