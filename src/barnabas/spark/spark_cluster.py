"""What is asked of a cluster: its topics, where their partitions end and begin, by time too.

Asked by the driver, and by a task whose broker is gone. Brokers that are not reached, or that do
not lead what they led, are asked again until `kafka.default.api.timeout.ms` is over.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from barnabas.base.clock import machine_stopwatch
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.requests import MalformedResponse, read_response, write_request
from barnabas.spark.blocking_connection import Connection, api_timeout_s, connect
from barnabas.spark.source.offset_ranges import Leader
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

Result = TypeVar("Result")
Address = tuple[str, int]

# Versions that Kafka has from 3.1 on, and Kafka 4 still.
_VERSIONS: Final = {
    ApiKey.METADATA: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_COMMIT: 8,
}
_CLIENT_ID: Final = "barnabas-spark"
_NS_PER_S: Final = 1e9
_PAUSE_S: Final = 0.1
# Where no broker ever answered, it is rather the address that is wrong.
_FIRST_CONTACT_S: Final = 10.0
_NO_EPOCH: Final = -1
# What an election or a broker that starts answers; soon another answer comes.
_SOON: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_or_partition,
    }
)


class Unsettled(Exception):
    """The cluster changes just now; who asks again soon gets an answer."""


class Topic(NamedTuple):
    """A topic as the cluster tells it: its id, and the leader of each partition."""

    name: str
    topic_id: uuid.UUID
    leaders: Mapping[int, Leader | None]
    is_internal: bool = False


class EpochOffset(NamedTuple):
    """An offset, and the leader epoch of the log there; -1 if the broker does not tell it."""

    offset: int
    epoch: int


class Cluster:
    """The brokers, by connections that are kept until `close`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._bootstrap = options.bootstrap
        self._connections: dict[Address, Connection] = {}
        self._reached = False
        # As they were told last; forgotten when a broker says that it is different now.
        self._known: dict[str, Topic] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- topics --------------------------------------------------------------

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """These topics, or all, as far as they exist; nothing is created by asking.

        Raises  SparkFailure, if no broker answers
        """
        asked = None if names is None else tuple(names)
        found = self._until_settled(lambda: self._topics(asked))
        self._known.update(found)
        return found

    def _topics(self, names: tuple[str, ...] | None) -> dict[str, Topic]:
        if names == ():
            return {}
        topics = None
        if names is not None:
            topics = tuple(SimpleNamespace(name=name) for name in names)
        answer = self._ask_any(ApiKey.METADATA, topics=topics, allow_auto_topic_creation=False)
        brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found = {}
        for topic in answer.topics:
            if topic.error_code is ErrorCode.unknown_topic_or_partition:
                continue
            if topic.error_code is ErrorCode.leader_not_available:
                raise Unsettled(f"{topic.name} has no leaders yet")
            if topic.error_code is not ErrorCode.none:
                raise SparkFailure(f"topic {topic.name}: {_words(topic.error_code)}")
            found[topic.name] = Topic(
                topic.name,
                topic.topic_id or uuid.UUID(int=0),
                {
                    each.partition_index: Leader(*brokers[each.leader_id], each.leader_epoch)
                    if each.leader_id in brokers
                    else None
                    for each in topic.partitions
                },
                topic.is_internal,
            )
        return found

    def leader(self, partition: TopicPartition, topic_id: uuid.UUID) -> Leader | None:
        """Who leads it now, asked once; None if nobody does.

        Raises  SparkFailure, if the topic is gone or another one has its name
                PeerGone, if no broker answers
        """
        topic = self._topics((partition.topic,)).get(partition.topic)
        if topic is None or topic.topic_id != topic_id:
            raise SparkFailure(f"topic {partition.topic} was deleted while it was read")
        return topic.leaders.get(partition.partition)

    # -- offsets -------------------------------------------------------------

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, EpochOffset]:
        """For each partition its earliest or latest offset, or the first one at or after a time.

        The offset is -1 where no record is as late. Latest is up to where a consumer may read.

        Raises  SparkFailure, if it cannot be known: a partition is gone or has no leader
        """
        return self._of_leaders(
            wanted,
            lambda address, mine: self._list_offsets(
                address, {each: wanted[each] for each in mine}, read_committed
            ),
        )

    def _list_offsets(
        self, address: Address, wanted: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, EpochOffset]:
        def ask(partition: TopicPartition) -> dict[str, object]:
            return {
                "partition_index": partition.partition,
                "current_leader_epoch": _NO_EPOCH,
                "timestamp": wanted[partition],
            }

        answer = self._ask(
            address,
            ApiKey.LIST_OFFSETS,
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=by_topic("name", wanted, ask),
        )
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                _check(partition, each.error_code)
                found[partition] = EpochOffset(each.offset, each.leader_epoch)
        return found

    def epoch_ends(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochOffset]:
        """Where the log's records of each epoch, or of the last one before it, end; -1 if unknown.

        Raises  SparkFailure, as `offsets`
        """
        return self._of_leaders(
            wanted,
            lambda address, mine: self._epoch_ends(address, {each: wanted[each] for each in mine}),
        )

    def _epoch_ends(
        self, address: Address, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochOffset]:
        key = ApiKey.OFFSET_FOR_LEADER_EPOCH

        def ask(partition: TopicPartition) -> dict[str, object]:
            return {
                "partition": partition.partition,
                "current_leader_epoch": _NO_EPOCH,
                "leader_epoch": wanted[partition],
            }

        answer = self._ask(address, key, replica_id=-1, topics=by_topic("topic", wanted, ask))
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.topic, each.partition)
                _check(partition, each.error_code)
                found[partition] = EpochOffset(each.end_offset, each.leader_epoch)
        return found

    def _of_leaders(
        self,
        wanted: Iterable[TopicPartition],
        ask: Callable[[Address, list[TopicPartition]], dict[TopicPartition, Result]],
    ) -> dict[TopicPartition, Result]:
        """What each partition's leader says, asked again as long as that changes."""
        missing = list(wanted)
        found: dict[TopicPartition, Result] = {}

        def go_on() -> dict[TopicPartition, Result]:
            names = tuple(dict.fromkeys(each.topic for each in missing))
            known, self._known = self._known, {}
            topics = known if known.keys() >= set(names) else self._topics(names)
            for address, mine in _by_leader(topics, missing).items():
                found.update(ask(address, mine))
            self._known = known | topics
            return found

        return self._until_settled(go_on) if missing else {}

    # -- asking --------------------------------------------------------------

    def coordinated(
        self, group: str, work: Callable[[Callable[..., Any]], Result], within_s: float
    ) -> Result:
        """Let `work` ask the group's coordinator; again, if it is another one or not ready.

        Raises  SparkFailure, if that takes longer than `within_s`
        """

        def attempt() -> Result:
            answer = self._ask_any(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(group,))
            found = answer.coordinators[0]
            if found.error_code is not ErrorCode.none:
                raise Unsettled(f"group {group}: {_words(found.error_code)}")
            address = (found.host, found.port)
            return work(lambda key, **fields: self._ask(address, key, **fields))

        return self._until_settled(attempt, within_s)

    @property
    def local_host(self) -> str | None:
        """This machine's address on the way to a broker; None before one was asked."""
        for connection in self._connections.values():
            return connection.local_host
        return None

    def _until_settled(
        self, attempt: Callable[[], Result], within_s: float | None = None
    ) -> Result:
        patience_s = api_timeout_s(self._options) if within_s is None else within_s
        if not self._reached:
            patience_s = min(patience_s, _FIRST_CONTACT_S)
        deadline = machine_stopwatch() + round(patience_s * _NS_PER_S)
        while True:
            try:
                return attempt()
            except PeerGone as gone:
                why = f"no broker answers ({gone})"
            except Unsettled as unsettled:
                why = str(unsettled)
            if machine_stopwatch() > deadline:
                names = ",".join(f"{host}:{port}" for host, port in self._bootstrap)
                raise SparkFailure(
                    f"the cluster at {names} cannot be read: {why}; start its brokers, or name"
                    " others in kafka.bootstrap.servers"
                )
            threading.Event().wait(_PAUSE_S)

    def _ask_any(self, key: ApiKey, /, **fields: object) -> Any:
        """The answer of the first broker that gives one. Raises PeerGone, if none does."""
        last = PeerGone("no brokers are named")
        for address in dict.fromkeys((*self._connections, *self._bootstrap)):
            try:
                return self._ask(address, key, **fields)
            except PeerGone as gone:
                last = gone
        raise last

    def _ask(self, address: Address, key: ApiKey, /, **fields: object) -> Any:
        version = _VERSIONS[key]
        frame = write_request(key, version, 1, _CLIENT_ID, cast(Message, SimpleNamespace(**fields)))
        connection = self._connections.get(address)
        if connection is None:
            connection = connect(*address, self._options)
            self._connections[address] = connection
        try:
            connection.send(frame)
            answer = read_response(key, version, memoryview(bytes(connection.receive())))
        except (PeerGone, MalformedResponse) as failure:
            self._connections.pop(address).close()
            raise PeerGone(str(failure)) from None
        self._reached = True
        return answer


def _by_leader(
    topics: Mapping[str, Topic], partitions: Iterable[TopicPartition]
) -> dict[Address, list[TopicPartition]]:
    chosen: dict[Address, list[TopicPartition]] = {}
    for partition in partitions:
        topic = topics.get(partition.topic)
        if topic is None or partition.partition not in topic.leaders:
            raise SparkFailure(f"there is no partition {partition} any more")
        leader = topic.leaders[partition.partition]
        if leader is None:
            raise Unsettled(f"{partition} has no leader; brokers that hold it are down")
        chosen.setdefault((leader.host, leader.port), []).append(partition)
    return chosen


def by_topic(
    name_field: str,
    partitions: Iterable[TopicPartition],
    ask: Callable[[TopicPartition], dict[str, object]],
) -> tuple[SimpleNamespace, ...]:
    """Parts of a request: a topic each, and in it what is asked of its partitions."""
    topics: dict[str, list[SimpleNamespace]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(SimpleNamespace(**ask(partition)))
    return tuple(
        SimpleNamespace(**{name_field: name}, partitions=tuple(parts))
        for name, parts in topics.items()
    )


def _check(partition: TopicPartition, code: ErrorCode) -> None:
    if code in _SOON:
        raise Unsettled(f"{partition}: {_words(code)}")
    if code is not ErrorCode.none:
        raise SparkFailure(f"partition {partition} cannot be read: {_words(code)}")


def _words(code: ErrorCode) -> str:
    return f"{code.name.replace('_', ' ')} [{code.name.upper()}]"
