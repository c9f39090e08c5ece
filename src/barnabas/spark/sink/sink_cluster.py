"""What a write asks of a cluster beside what a read asks: producer ids, topics made and deleted."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from barnabas.base.clock import machine_stopwatch
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.requests import MalformedResponse, read_response, write_request
from barnabas.spark.blocking_connection import api_timeout_s, connect
from barnabas.spark.sink.batch_sender import ProducerId
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.spark_cluster import Cluster, Topic
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

_CLIENT_ID: Final = "barnabas-spark"
# Versions that Kafka has from 3.1 on, and Kafka 4 still.
_VERSIONS: Final = {
    ApiKey.METADATA: 12,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.DELETE_RECORDS: 2,
}
_MOST_REPLICAS: Final = 3
_CHANGED_WITHIN_MS: Final = 30_000
_PAUSE_S: Final = 0.1
_NS_PER_S: Final = 1_000_000_000

Result = TypeVar("Result")


def new_producer_id(options: SourceOptions) -> ProducerId:
    """An id that nobody had before. Raises SparkFailure, if no broker gives one."""

    def attempt() -> ProducerId | None:
        answer = _ask_any(
            options,
            ApiKey.INIT_PRODUCER_ID,
            transactional_id=None,
            transaction_timeout_ms=0,
            producer_id=-1,
            producer_epoch=-1,
        )
        if answer.error_code is not ErrorCode.none:
            return None
        return ProducerId(answer.producer_id, answer.producer_epoch)

    return until(options, attempt, "no broker gives out a producer id")


def partition_count(options: SourceOptions, topic: str) -> int:
    """How many partitions the topic has; where brokers make topics on use, it is made.

    Raises  SparkFailure, if there is none, or no broker answers
    """
    with Cluster(options) as cluster:
        if topic in (found := cluster.topics((topic,))):
            return len(found[topic].leaders)

    def attempt() -> int | None:
        answer = _ask_any(
            options,
            ApiKey.METADATA,
            topics=(SimpleNamespace(name=topic),),
            allow_auto_topic_creation=True,
        )
        made = answer.topics[0]
        if made.error_code is ErrorCode.none:
            return len(made.partitions)
        if made.error_code is ErrorCode.invalid_topic_exception:
            raise SparkFailure(f"no topic can have the name {topic!r}")
        return None

    return until(
        options,
        attempt,
        f"there is no topic {topic}; make it with `barnabas topics create {topic}`",
    )


def create_topic(
    options: SourceOptions, topic: str, partitions: int, configs: Mapping[str, str]
) -> None:
    """Make a topic with up to three replicas, unless it is there. Raises SparkFailure."""

    def attempt() -> bool | None:
        cluster = _ask_any(options, ApiKey.METADATA, topics=(), allow_auto_topic_creation=False)
        wanted = SimpleNamespace(
            name=topic,
            num_partitions=partitions,
            replication_factor=min(_MOST_REPLICAS, len(cluster.brokers)),
            assignments=(),
            configs=tuple(SimpleNamespace(name=n, value=v) for n, v in configs.items()),
        )
        (made,) = _ask(
            options,
            _controller(cluster),
            ApiKey.CREATE_TOPICS,
            topics=(wanted,),
            timeout_ms=_CHANGED_WITHIN_MS,
            validate_only=False,
        ).topics
        if made.error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
            return True
        if made.error_code in (ErrorCode.not_controller, ErrorCode.request_timed_out):
            return None
        why = made.error_message or made.error_code.name.replace("_", " ")
        raise SparkFailure(f"topic {topic} cannot be made: {why}")

    until(options, attempt, f"topic {topic} cannot be made: no controller answers")


def delete_topic(options: SourceOptions, topic: str) -> None:
    """Tried once; what cannot be deleted now is left behind."""
    with suppress(PeerGone):
        cluster = _ask_any(options, ApiKey.METADATA, topics=(), allow_auto_topic_creation=False)
        _ask(
            options,
            _controller(cluster),
            ApiKey.DELETE_TOPICS,
            topic_names=(topic,),
            timeout_ms=_CHANGED_WITHIN_MS,
        )


def delete_records(options: SourceOptions, topic: Topic, before: Mapping[int, int]) -> None:
    """Delete what comes before these offsets, by partition; tried once at each leader."""
    for partition, offset in before.items():
        leader = topic.leaders.get(partition)
        if leader is not None:
            wanted = SimpleNamespace(partition_index=partition, offset=offset)
            with suppress(PeerGone):
                _ask(
                    options,
                    (leader.host, leader.port),
                    ApiKey.DELETE_RECORDS,
                    topics=(SimpleNamespace(name=topic.name, partitions=(wanted,)),),
                    timeout_ms=_CHANGED_WITHIN_MS,
                )


def _controller(cluster: Any) -> tuple[str, int]:
    for broker in cluster.brokers:
        if broker.node_id == cluster.controller_id:
            return broker.host, broker.port
    raise PeerGone("there is no controller")


def _ask_any(options: SourceOptions, key: ApiKey, **fields: object) -> Any:
    """What the first broker says that answers. Raises PeerGone, if none does."""
    last = PeerGone("no brokers are named")
    for address in options.bootstrap:
        try:
            return _ask(options, address, key, **fields)
        except PeerGone as gone:
            last = gone
    raise last


def _ask(options: SourceOptions, address: tuple[str, int], key: ApiKey, **fields: object) -> Any:
    """What a broker answers, over a connection for this alone. Raises PeerGone."""
    version, message = _VERSIONS[key], cast(Message, SimpleNamespace(**fields))
    connection = connect(*address, options)
    try:
        connection.send(write_request(key, version, 1, _CLIENT_ID, message))
        return read_response(key, version, memoryview(bytes(connection.receive())))
    except MalformedResponse as failure:
        raise PeerGone(str(failure)) from None
    finally:
        connection.close()


def until(options: SourceOptions, attempt: Callable[[], Result | None], problem: str) -> Result:
    """What `attempt` gives; None is tried again, for as long as an API call may take."""
    deadline = machine_stopwatch() + round(api_timeout_s(options) * _NS_PER_S)
    while True:
        why = ""
        try:
            if (result := attempt()) is not None:
                return result
        except PeerGone as gone:
            why = f" ({gone})"
        if machine_stopwatch() > deadline:
            raise SparkFailure(problem + why)
        threading.Event().wait(_PAUSE_S)
