"""The committed offsets of all groups of a shard: replay, and decisions.

Decisions change nothing; their records do, once they are replayed. The caller has checked that the
group allows the commit, fetch or deletion.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import CoordinatorRecord, CoordinatorResult
from barnabas.groups.offsets.offset_messages import (
    AskedTopic,
    Expired,
    FetchedOffset,
    FetchedTopic,
    FetchReply,
    OffsetOwner,
    OffsetSettings,
    OffsetsReply,
    PartitionResult,
    TopicCommits,
    TopicResults,
)
from barnabas.groups.offsets.pending_offsets import PendingOffsets
from barnabas.groups.records.offset_record import (
    NO_TIMESTAMP,
    CommittedOffset,
    OffsetCommit,
    commit_record,
    key_prefix,
)
from barnabas.wire.bounds import LONGEST_STRING

NO_RETENTION = -1
COMMIT_SEQUENCE = 0  # Kafka writes commits as the first batch of a producer without an id
_END_OF_TIME_MS = 2**63 - 1  # the latest timestamp of a record
_NONE = ErrorCode.none


class Offsets:
    """By group, topic and partition; groups and topics without offsets are not kept."""

    def __init__(self, settings: OffsetSettings) -> None:
        self.settings = settings
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._pending = PendingOffsets()

    # -- replay ----------------------------------------------------------------------------------

    def replay(self, commit: OffsetCommit) -> None:
        """Apply a record that is not part of a transaction."""
        group_id, topic, partition, value = commit
        if value is None:
            self._remove(group_id, topic, partition)
            self._pending.remove(group_id, TopicPartition(topic, partition))
            return
        self._put(group_id, topic, partition, value)
        if group_id in self._pending:
            self._pending.replace(group_id, TopicPartition(topic, partition))

    def replay_transactional(self, producer_id: int, commit: OffsetCommit) -> None:
        """Apply a record of an open transaction; it counts when the transaction commits."""
        if commit.value is None:
            self.replay(commit)
        else:
            self._pending.put(producer_id, commit)

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> None:
        for group_id, topic, partition, value in self._pending.end(producer_id, is_committed):
            if value is not None:
                self._put(group_id, topic, partition, value)

    def __contains__(self, group_id: str) -> bool:
        """True if the group has offsets, or will if a transaction commits."""
        return group_id in self._groups or group_id in self._pending

    def __iter__(self) -> Iterator[OffsetCommit]:
        """Every offset that counts."""
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    yield OffsetCommit(group_id, topic, partition, value)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def _put(self, group_id: str, topic: str, partition: int, value: CommittedOffset) -> None:
        try:
            self._groups[group_id][topic][partition] = value
        except KeyError:
            topics = self._groups.setdefault(group_id, {})
            topics.setdefault(topic, {})[partition] = value

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None or partitions:
            return
        del topics[topic]
        if not topics:
            del self._groups[group_id]

    # -- requests --------------------------------------------------------------------------------

    def decide_commit(
        self,
        group_id: str,
        topics: Iterable[TopicCommits],
        wall_ms: int,
        retention_ms: int = NO_RETENTION,
    ) -> CoordinatorResult[OffsetsReply]:
        """Commit each partition that is valid; old clients may set a retention time."""
        expire_ms = NO_TIMESTAMP
        if retention_ms != NO_RETENTION:
            expire_ms = min(wall_ms + retention_ms, _END_OF_TIME_MS)
        records: list[CoordinatorRecord] = []
        results = []
        for topic, commits in topics:
            prefix = key_prefix(group_id, topic)
            result = []
            for partition, offset, leader_epoch, metadata, commit_ms in commits:
                if metadata and self._is_too_large(metadata):
                    error = ErrorCode.offset_metadata_too_large
                    result.append(PartitionResult(partition, error))
                    continue
                commit_ms = wall_ms if commit_ms == NO_TIMESTAMP else commit_ms
                value = CommittedOffset(offset, leader_epoch, metadata or "", commit_ms, expire_ms)
                records.append(commit_record(prefix, partition, value))
                result.append(PartitionResult(partition, _NONE))
            results.append(TopicResults(topic, result))
        return CoordinatorResult(
            OffsetsReply(results), tuple(records), base_sequence=COMMIT_SEQUENCE, is_atomic=False
        )

    def _is_too_large(self, metadata: str) -> bool:
        """Kafka counts UTF-16 units; a record has a limit of its own."""
        limit = self.settings.metadata_max_bytes
        if 3 * len(metadata) <= min(limit, LONGEST_STRING):
            return False
        units = len(metadata.encode("utf-16-be")) // 2
        return units > limit or len(metadata.encode()) > LONGEST_STRING

    def fetch(
        self, group_id: str, topics: Iterable[AskedTopic] | None, require_stable: bool = False
    ) -> FetchReply:
        """The offsets of these partitions, or of all partitions that have one (None).

        With `require_stable`, an offset that an open transaction may change is
        UNSTABLE_OFFSET_COMMIT.
        """
        of_group = self._groups.get(group_id, {})
        if topics is None:
            topics = [AskedTopic(topic, found) for topic, found in of_group.items()]
        waits = require_stable and self.settings.awaits_transactions
        if waits and group_id in self._pending:
            return FetchReply([self._stable(group_id, asked) for asked in topics])
        return FetchReply(
            [
                FetchedTopic(topic, _fetched(of_group.get(topic, {}), partitions))
                for topic, partitions in topics
            ]
        )

    def _stable(self, group_id: str, asked: AskedTopic) -> FetchedTopic:
        known = self._groups.get(group_id, {}).get(asked.topic, {})
        unstable = ErrorCode.unstable_offset_commit
        return FetchedTopic(
            asked.topic,
            [
                FetchedOffset(partition, error=unstable)
                if self._pending.is_pending(group_id, asked.topic, partition)
                else _fetched(known, (partition,))[0]
                for partition in asked.partitions
            ],
        )

    def decide_delete(
        self, group_id: str, topics: Iterable[AskedTopic], is_subscribed: Callable[[str], bool]
    ) -> CoordinatorResult[OffsetsReply]:
        """A missing offset counts as deleted; offsets of subscribed topics stay."""
        gone: list[TopicPartition] = []
        results = []
        for topic, partitions in topics:
            partitions = list(partitions)
            subscribed = is_subscribed(topic)
            error = ErrorCode.group_subscribed_to_topic if subscribed else _NONE
            results.append(
                TopicResults(topic, [PartitionResult(each, error) for each in partitions])
            )
            if not subscribed:
                gone += self._known(group_id, {topic: partitions})
        tombstones = _tombstones(group_id, gone)
        return CoordinatorResult(OffsetsReply(results), tombstones, is_atomic=False)

    # -- expiry and deleted partitions ------------------------------------------------------------

    def decide_expire(self, group_id: str, owner: OffsetOwner, wall_ms: int) -> Expired:
        """The offsets that were unused for the retention time, or for the time that the client set.

        Offsets of subscribed topics and pending offsets are kept.
        """
        expired: list[TopicPartition] = []
        kept = group_id in self._pending
        for topic, partitions in self._groups.get(group_id, {}).items():
            if owner.is_subscribed_to(topic):
                kept = True
                continue
            for partition, value in partitions.items():
                pending = self._pending.is_pending(group_id, topic, partition)
                if not pending and self._is_expired(value, owner, wall_ms):
                    expired.append(TopicPartition(topic, partition))
                else:
                    kept = True
        return Expired(_tombstones(group_id, expired), not kept)

    def _is_expired(self, value: CommittedOffset, owner: OffsetOwner, wall_ms: int) -> bool:
        since_ms = owner.unused_since_ms(value.commit_timestamp_ms)
        if since_ms is None:
            return False
        if value.expire_timestamp_ms != NO_TIMESTAMP:
            return wall_ms >= value.expire_timestamp_ms
        return wall_ms - since_ms >= self.settings.retention_ms

    def decide_delete_all(self, group_id: str) -> tuple[CoordinatorRecord, ...]:
        """The tombstones of every offset of the group, pending ones included."""
        gone = [
            TopicPartition(topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition in partitions
        ]
        gone += self._pending.partitions(group_id)
        return _tombstones(group_id, dict.fromkeys(gone))

    def decide_partitions_deleted(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[CoordinatorRecord, ...]:
        """The tombstones of all offsets of deleted partitions."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in dict.fromkeys(partitions):
            by_topic.setdefault(topic, []).append(partition)
        return tuple(
            record
            for group_id in dict.fromkeys([*self._groups, *self._pending.groups()])
            for record in _tombstones(group_id, self._known(group_id, by_topic))
        )

    def _known(self, group_id: str, asked: Mapping[str, Iterable[int]]) -> list[TopicPartition]:
        """The partitions with an offset of the group, committed or pending."""
        of_group = self._groups.get(group_id, {})
        return [
            TopicPartition(topic, partition)
            for topic, partitions in asked.items()
            if topic in of_group or group_id in self._pending
            for partition in partitions
            if partition in of_group.get(topic, {})
            or self._pending.is_pending(group_id, topic, partition)
        ]


def _fetched(known: dict[int, CommittedOffset], partitions: Iterable[int]) -> list[FetchedOffset]:
    return [
        FetchedOffset(partition)
        if (value := known.get(partition)) is None
        else FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)
        for partition in partitions
    ]


def _tombstones(group_id: str, gone: Iterable[TopicPartition]) -> tuple[CoordinatorRecord, ...]:
    return tuple(
        commit_record(key_prefix(group_id, topic), partition, None) for topic, partition in gone
    )
