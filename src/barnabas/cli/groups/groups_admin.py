"""Requests to group coordinators through librdkafka; one that loads or moves is asked again."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from barnabas.base.ids import TopicPartition as Partition
from barnabas.cli.client import ClusterClients, admin, check_partitions, fail, find_topic
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.show import counted

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

_TIMEOUT_S: Final = 20.0  # longer than the failover of a coordinator takes
_OFFSETS_TIMEOUT_S: Final = 5.0
_BACK_OFF_S: Final = 0.25
_OFFSET_ATTEMPTS: Final = 5
_ATTEMPTS: Final = 40
_MOVING: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
# Kafka's names of the states; those that only consumer groups have are unknown to librdkafka.
UNKNOWN: Final = "Unknown"
STATES: Final = {
    "UNKNOWN": UNKNOWN,
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
    "ASSIGNING": "Assigning",
    "RECONCILING": "Reconciling",
}
TYPES: Final = ("Classic", "Consumer")

Offsets = dict[Partition, int]


def state_of(group: Any) -> str:
    """The state of a group, as listed or described, by Kafka's name."""
    return STATES[group.state.name]


def check_is_empty(group: Any, done: str) -> None:
    """Raises CommandFailed if the group has members, and so cannot be `done`."""
    if group.members or state_of(group) != "Empty":
        raise CommandFailed(
            f"group {group.group_id} has {counted(len(group.members), 'member')} and is"
            f" {state_of(group)}; only one without members can be {done}: stop them first"
            f" (nothing was {done})"
        )


class GroupAdmin:
    """A client for groups. A method that fails raises CommandFailed."""

    def __init__(self, cluster: ClusterClients) -> None:
        self._cluster = cluster
        self._client, self.metadata = cluster.admin()
        self._is_spent = False

    def wait(self, seconds: float) -> None:
        self._client.poll(seconds)

    def refresh(self) -> "ClusterMetadata":
        """The brokers, topics and leaders now."""
        if self._is_spent:
            self._client, self.metadata = self._cluster.admin()
            self._is_spent = False
            return self.metadata
        try:
            self.metadata = self._client.list_topics(timeout=_TIMEOUT_S)
        except KafkaException as failure:
            fail(failure.args[0], "the cluster's metadata")
        return self.metadata

    def listed(self) -> tuple[list[Any], list[KafkaException]]:
        """All groups, by name, and the errors of brokers that did not list theirs."""
        result = self._asked(
            lambda: self._client.list_consumer_groups(request_timeout=_TIMEOUT_S),
            "the list of groups",
            check=lambda result: _raise_if_moving(error.args[0] for error in result.errors),
        )
        return sorted(result.valid, key=lambda group: str(group.group_id)), result.errors

    def described(self, name: str) -> Any | None:
        """The coordinator's description of the group; None if it does not exist."""
        group = self._asked(
            lambda: self._client.describe_consumer_groups([name], request_timeout=_TIMEOUT_S)[name],
            f"group {name}",
            absent=KafkaError.GROUP_ID_NOT_FOUND,
        )
        return None if group is None or state_of(group) == "Dead" else group

    def find(self, name: str, remedy: str = "") -> Any:
        """The same. Raises CommandFailed, with the likeliest name, if there is no such group."""
        group = self.described(name)
        if group is None:
            likely = self.likely(name)
            hint = f"did you mean {likely}?" if likely else "`barnabas groups list` shows all"
            raise CommandFailed(f"there is no group {name} ({hint}){remedy}")
        return group

    def likely(self, name: str) -> str | None:
        """The group whose name is most like this one, if there is one."""
        listed, _ = self.listed()
        found = difflib.get_close_matches(name, [each.group_id for each in listed], n=1)
        return found[0] if found else None

    def committed(self, name: str) -> Offsets:
        """The offsets that the group has committed."""
        result = self._asked(
            lambda: self._client.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(name)], request_timeout=_TIMEOUT_S
            )[name],
            f"the offsets of group {name}",
        )
        return {
            Partition(each.topic, each.partition): each.offset
            for each in result.topic_partitions
            if each.offset >= 0
        }

    def commit(self, name: str, offsets: Mapping[Partition, int]) -> None:
        """Commit these offsets. Some may be committed though it failed for others."""
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        result = self._asked(
            lambda: self._client.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(name, wanted)], request_timeout=_TIMEOUT_S
            )[name],
            f"the offsets of group {name}",
            check=lambda result: _raise_if_moving(_errors(result)),
        )
        for each in result.topic_partitions:
            if each.error is not None and each.error.code() == KafkaError.UNKNOWN_MEMBER_ID:
                raise CommandFailed(f"group {name} has got members meanwhile; stop them first")
            if each.error is not None:
                fail(each.error, f"group {name}, {each.topic}-{each.partition}")

    def delete(self, name: str) -> None:
        self._asked(
            lambda: self._client.delete_consumer_groups([name], request_timeout=_TIMEOUT_S)[name],
            f"group {name}",
        )

    def earliest(self, partitions: Iterable[Partition]) -> Offsets:
        """The log start offset of each partition whose leader answers."""
        return self._offsets(partitions, admin.OffsetSpec.earliest())

    def latest(self, partitions: Iterable[Partition]) -> Offsets:
        """The log end offset of each partition whose leader answers."""
        return self._offsets(partitions, admin.OffsetSpec.latest())

    def since(self, partitions: Iterable[Partition], timestamp_ms: int) -> Offsets:
        """The first offset at or after that time; a partition without one is absent."""
        return self._offsets(partitions, admin.OffsetSpec.for_timestamp(timestamp_ms))

    def partitions(self, wanted: Mapping[str, Sequence[int]]) -> list[Partition]:
        """These partitions; all of a topic for which none is given. Raises CommandFailed."""
        return [
            Partition(name, number)
            for name, numbers in wanted.items()
            for number in check_partitions(find_topic(self.metadata, name), numbers)
        ]

    def exists(self, partition: Partition) -> bool:
        topic = self.metadata.topics.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def _offsets(self, partitions: Iterable[Partition], where: Any) -> Offsets:
        """Offsets from the leaders; while a leader fails over, its successor is asked again."""
        found: Offsets = {}
        missing = list(partitions)
        for attempt in range(_OFFSET_ATTEMPTS):
            if attempt:
                self.wait(_BACK_OFF_S)
                self.refresh()
            missing = self._ask_leaders(missing, where, found)
            if not missing:
                break
        return found

    def _ask_leaders(
        self, partitions: Sequence[Partition], where: Any, found: Offsets
    ) -> list[Partition]:
        """Adds offsets to `found`; returns the partitions whose leader did not answer."""
        wanted = {TopicPartition(*each): where for each in partitions if self._is_led(each)}
        if not wanted:
            return []
        asked = self._client.list_offsets(wanted, request_timeout=_OFFSETS_TIMEOUT_S)
        missing = []
        for told, future in asked.items():
            partition = Partition(told.topic, told.partition)
            try:
                offset = future.result(2 * _TIMEOUT_S).offset
            except (KafkaException, TimeoutError):
                missing.append(partition)
                continue
            if offset >= 0:  # else no record is that late
                found[partition] = offset
        return missing

    def _is_led(self, partition: Partition) -> bool:
        if not self.exists(partition):
            return False
        leader = self.metadata.topics[partition.topic].partitions[partition.partition].leader
        return leader in self.metadata.brokers

    def _asked(
        self,
        ask: "Callable[[], Future[Any]]",
        subject: str,
        *,
        absent: int | None = None,
        check: Callable[[Any], None] = lambda result: None,
    ) -> Any:
        """The answer; None for the error `absent`."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                result = ask().result(2 * _TIMEOUT_S)
                check(result)
            except KafkaException as failure:
                error = failure.args[0]
                if error.code() == absent:
                    return None
                if error.code() not in _MOVING or attempt == _ATTEMPTS:
                    # After a request to a coordinator that is gone, librdkafka may abort the
                    # process when it learns of its successor; a new client does not.
                    self._is_spent = error.code() < 0
                    fail(error, subject)
            except (TimeoutError, ValueError, TypeError) as failure:
                reason = str(failure) or "the broker did not answer"
                raise CommandFailed(f"{subject}: {reason}") from None
            else:
                return result
            self.wait(_BACK_OFF_S)
        raise AssertionError("the last attempt returns or fails")


def _errors(result: Any) -> list[KafkaError]:
    return [each.error for each in result.topic_partitions if each.error is not None]


def _raise_if_moving(errors: Iterable[KafkaError]) -> None:
    for error in errors:
        if error.code() in _MOVING:
            raise KafkaException(error)
