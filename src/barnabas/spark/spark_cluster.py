"""The cluster that a query reads or writes: topics, offsets, producer ids.

The driver asks, and so does a task whose broker is gone. Requests are retried until
`kafka.default.api.timeout.ms` is over.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.blocking_client import BlockingClient
from barnabas.client.coordinator import CoordinatorRefused, ask_coordinator, first_error
from barnabas.client.metadata import Leader, Metadata, TopicInfo, fields
from barnabas.client.retries import (
    STALE_LEADER,
    Address,
    Ask,
    RetriableError,
    Steps,
    error_words,
    retried,
    within,
)
from barnabas.spark.broker_connection import api_timeout_s, connect, security_of
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey

Result = TypeVar("Result")

# If no broker ever answered, the address is probably wrong.
_FIRST_CONTACT_S: Final = 10.0
_NO_EPOCH: Final = -1


class EpochOffset(NamedTuple):
    """An offset, and the leader epoch of the log there; -1 if the broker does not report it."""

    offset: int
    epoch: int


class SparkCluster:
    """A client of the brokers; its connections stay open until `close`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        security = security_of(options)
        self._client = BlockingClient(lambda address: connect(*address, options, security))
        self.metadata = Metadata(options.bootstrap)
        # Topics whose leaders need no look-up; emptied when a broker says they have changed.
        self._known: dict[str, TopicInfo] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    # -- topics --------------------------------------------------------------

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicInfo]:
        """These topics, or all, that exist; none is created.

        Raises  SparkFailure, if no broker answers
        """
        asked = None if names is None else tuple(names)
        found = self.until_settled(lambda: self.existing(asked))
        self._known.update(found)
        return found

    def existing(self, names: tuple[str, ...] | None) -> Steps[dict[str, TopicInfo]]:
        """One attempt of `topics`. Raises PeerGone, RetriableError, SparkFailure."""
        if names == ():
            return {}
        found = yield from self.metadata.refresh(names)
        existing = {}
        for name, topic in found.items():
            if topic.error is ErrorCode.unknown_topic_or_partition:
                continue
            if topic.error is ErrorCode.leader_not_available:
                raise RetriableError(f"{name} has no leaders yet")
            if topic.error is not ErrorCode.none:
                raise SparkFailure(f"topic {name}: {error_words(topic.error)}")
            existing[name] = topic
        return existing

    def leader(self, partition: TopicPartition, topic_id: uuid.UUID) -> Leader | None:
        """The partition's leader now, asked once; None if it has none.

        Raises  SparkFailure, if the topic was deleted, or deleted and created again
                PeerGone, RetriableError, if the leader is not known now
        """
        topic = self.once(self.existing((partition.topic,))).get(partition.topic)
        if topic is None or topic.topic_id != topic_id:
            raise SparkFailure(f"topic {partition.topic} was deleted while it was read")
        return topic.leader(partition.partition)

    # -- offsets -------------------------------------------------------------

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, EpochOffset]:
        """For each partition its earliest or latest offset, or the first one at or after a time.

        The offset is -1 if no record is as late. The latest is where a consumer may read up to.

        Raises  SparkFailure, if a partition does not exist or has no leader
        """

        def ask(address: Address, mine: list[TopicPartition]) -> Steps[Any]:
            request = fields(
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=by_topic(
                    "name",
                    mine,
                    lambda each: {
                        "partition_index": each.partition,
                        "current_leader_epoch": _NO_EPOCH,
                        "timestamp": wanted[each],
                    },
                ),
            )
            response = yield Ask(address, ApiKey.LIST_OFFSETS, request)
            return {
                _checked(topic.name, each.partition_index, each): EpochOffset(
                    each.offset, each.leader_epoch
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return self._ask_leaders(wanted, ask)

    def epoch_ends(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochOffset]:
        """The end offset of each partition's epoch, or of the last one before it; -1 if unknown.

        Raises  SparkFailure, as `offsets`
        """

        def ask(address: Address, mine: list[TopicPartition]) -> Steps[Any]:
            request = fields(
                replica_id=-1,
                topics=by_topic(
                    "topic",
                    mine,
                    lambda each: {
                        "partition": each.partition,
                        "current_leader_epoch": _NO_EPOCH,
                        "leader_epoch": wanted[each],
                    },
                ),
            )
            response = yield Ask(address, ApiKey.OFFSET_FOR_LEADER_EPOCH, request)
            return {
                _checked(topic.topic, each.partition, each): EpochOffset(
                    each.end_offset, each.leader_epoch
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return self._ask_leaders(wanted, ask)

    def _ask_leaders(
        self,
        wanted: Iterable[TopicPartition],
        ask: Callable[[Address, list[TopicPartition]], Steps[dict[TopicPartition, EpochOffset]]],
    ) -> dict[TopicPartition, EpochOffset]:
        """The responses of the partitions' leaders; while they change, they are looked up again."""
        partitions = list(wanted)
        names = tuple(dict.fromkeys(each.topic for each in partitions))

        def attempt() -> Steps[dict[TopicPartition, EpochOffset]]:
            known, self._known = self._known, {}
            topics = known
            if not known.keys() >= set(names):
                topics = yield from self.existing(names)
            found: dict[TopicPartition, EpochOffset] = {}
            for address, mine in _by_leader(topics, partitions).items():
                found |= yield from ask(address, mine)
            self._known = known | topics
            return found

        return self.until_settled(attempt) if partitions else {}

    # -- groups --------------------------------------------------------------

    def ask_coordinator(
        self,
        group: str,
        key: ApiKey,
        message: Any,
        within_s: float,
        error_of: Callable[[Any], ErrorCode] = first_error,
    ) -> Any:
        """The response of the group's coordinator.

        Raises  SparkFailure, if there is none within so much time
        """
        steps = ask_coordinator(
            self.metadata, group, key, message, within(self._patience_s(within_s)), error_of
        )
        try:
            return self.once(steps)
        except (PeerGone, RetriableError, CoordinatorRefused) as failure:
            raise SparkFailure(str(failure)) from None

    # -- attempts ------------------------------------------------------------

    def once(self, steps: Steps[Result]) -> Result:
        return self._client.run(steps)

    def until_settled(
        self, attempt: Callable[[], Steps[Result]], problem: str | None = None
    ) -> Result:
        """Attempt again while no broker answers or the cluster changes.

        Raises  SparkFailure, if that goes on too long; it says `problem`
        """
        try:
            return self.once(retried(attempt, within(self._patience_s())))
        except (PeerGone, RetriableError) as failure:
            why = str(failure)
            if problem is not None:
                raise SparkFailure(f"{problem} ({why})" if why else problem) from None
            if isinstance(failure, PeerGone):
                why = f"no broker answers ({why})"
        names = ",".join(f"{host}:{port}" for host, port in self.metadata.bootstrap)
        raise SparkFailure(
            f"the cluster at {names} cannot be read: {why}; start its brokers, or name others in"
            " kafka.bootstrap.servers"
        )

    def _patience_s(self, within_s: float | None = None) -> float:
        patience_s = api_timeout_s(self._options) if within_s is None else within_s
        return patience_s if self.metadata.brokers else min(patience_s, _FIRST_CONTACT_S)


def _by_leader(
    topics: Mapping[str, TopicInfo], partitions: Iterable[TopicPartition]
) -> dict[Address, list[TopicPartition]]:
    chosen: dict[Address, list[TopicPartition]] = {}
    for partition in partitions:
        topic = topics.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            raise SparkFailure(f"there is no partition {partition} any more")
        leader = topic.leader(partition.partition)
        if leader is None:
            raise RetriableError(f"{partition} has no leader; brokers that hold it are down")
        chosen.setdefault(leader.address, []).append(partition)
    return chosen


def by_topic(
    name_field: str,
    partitions: Iterable[TopicPartition],
    ask: Callable[[TopicPartition], dict[str, object]],
) -> tuple[SimpleNamespace, ...]:
    """Parts of a request: one for each topic, with a part for each of its partitions."""
    topics: dict[str, list[SimpleNamespace]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(SimpleNamespace(**ask(partition)))
    return tuple(
        SimpleNamespace(**{name_field: name}, partitions=tuple(parts))
        for name, parts in topics.items()
    )


def _checked(topic: str, number: int, answered: Any) -> TopicPartition:
    partition, code = TopicPartition(topic, number), answered.error_code
    if code in STALE_LEADER:
        raise RetriableError(f"{partition}: {error_words(code)}")
    if code is not ErrorCode.none:
        raise SparkFailure(f"partition {partition} cannot be read: {error_words(code)}")
    return partition
