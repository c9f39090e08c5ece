"""What a write asks of a cluster beside what a read asks: a producer's id, topics made on use."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from barnabas.base.clock import machine_stopwatch
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.spark.cluster import Cluster
from barnabas.spark.connection import api_timeout_s, connect
from barnabas.spark.failures import SparkFailure
from barnabas.spark.options import SourceOptions
from barnabas.spark.sender import ProducerId
from barnabas.wire.apis import ApiKey
from barnabas.wire.requests import MalformedResponse, read_response, write_request
from barnabas.wire.schema import Message

_CLIENT_ID: Final = "barnabas-spark"
_INIT_PRODUCER_ID_VERSION: Final = 4
_METADATA_VERSION: Final = 12
_PAUSE_S: Final = 0.1
_NS_PER_S: Final = 1_000_000_000

Result = TypeVar("Result")


def new_producer_id(options: SourceOptions) -> ProducerId:
    """An id that nobody had before. Raises SparkFailure, if no broker gives one."""

    def attempt() -> ProducerId | None:
        answer = _ask_any(
            options,
            ApiKey.INIT_PRODUCER_ID,
            _INIT_PRODUCER_ID_VERSION,
            transactional_id=None,
            transaction_timeout_ms=0,
            producer_id=-1,
            producer_epoch=-1,
        )
        if answer.error_code is not ErrorCode.none:
            return None
        return ProducerId(answer.producer_id, answer.producer_epoch)

    return _until(options, attempt, "no broker gives out a producer id")


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
            _METADATA_VERSION,
            topics=(SimpleNamespace(name=topic),),
            allow_auto_topic_creation=True,
        )
        made = answer.topics[0]
        if made.error_code is ErrorCode.none:
            return len(made.partitions)
        if made.error_code is ErrorCode.invalid_topic_exception:
            raise SparkFailure(f"no topic can have the name {topic!r}")
        return None

    return _until(
        options,
        attempt,
        f"there is no topic {topic}; make it with `barnabas topics create {topic}`",
    )


def _ask_any(options: SourceOptions, key: ApiKey, version: int, **fields: object) -> Any:
    """What the first broker says that answers. Raises PeerGone, if none does."""
    frame = write_request(key, version, 1, _CLIENT_ID, cast(Message, SimpleNamespace(**fields)))
    last = PeerGone("no brokers are named")
    for host, port in options.bootstrap:
        try:
            connection = connect(host, port, options)
            try:
                connection.send(frame)
                return read_response(key, version, memoryview(bytes(connection.receive())))
            finally:
                connection.close()
        except (PeerGone, MalformedResponse) as failure:
            last = PeerGone(str(failure))
    raise last


def _until(options: SourceOptions, attempt: Callable[[], Result | None], problem: str) -> Result:
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
