"""Requests that a producer repeats with each transaction: the same answers as from the handlers."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.end_txn.v5.response import EndTxnResponse

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.server.handlers.add_partitions_to_txn import Added, _topics
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.requests.repeated_transactions import RepeatedTransactions
from barnabas.server.transactions.transaction_coordinator import Codes
from barnabas.testing import Cluster
from barnabas.transactions.transaction_messages import AddPartitions, EndTransaction, Producer
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import NO_THROTTLE, request_type, write_body, write_response
from tests.server.admin.client import Client, parts
from tests.server.admin.test_transactions import add, create, end, init

ADD, END = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN


class Coordinator:
    """Does what it is asked to, or refuses it; None if it has to wait."""

    def __init__(self, code: ErrorCode | None = ErrorCode.none) -> None:
        self.code = code
        self.asked: list[Any] = []
        self.waits = False

    def replies_at_once(self, transactional_id: str) -> bool:
        return not self.waits

    def add_at_once(self, request: AddPartitions) -> ErrorCode | None:
        self.asked.append(request)
        return self.code

    def end_at_once(self, request: EndTransaction) -> ErrorCode | None:
        self.asked.append(request)
        return self.code


def serve(coordinator: Any, key: ApiKey, version: int, body: bytes) -> bytes | None:
    (response,) = served(coordinator, key, version, body)
    return response


def served(
    coordinator: Any, key: ApiKey, version: int, *bodies: bytes, statistics: Any = None
) -> list[bytes | None]:
    """The responses to several requests, of which the first ones may be remembered."""
    repeated = RepeatedTransactions(coordinator, statistics or RequestStatistics())
    return [repeated.serve(key, version, 77, memoryview(body)) for body in bodies]


def an_add(version: int, **fields: object) -> bytes:
    topics = [("b", (3, 1)), ("a", (0,))]
    given = {
        "v3_and_below_transactional_id": "till",
        "v3_and_below_producer_id": 7,
        "v3_and_below_producer_epoch": 2,
        "v3_and_below_topics": tuple(parts(name=n, partitions=each) for n, each in topics),
    }
    return write_body(request_type(ADD, version), SimpleNamespace(**(given | fields)))


def an_end(version: int, transactional_id: str = "till") -> bytes:
    message = parts(
        transactional_id=transactional_id, producer_id=7, producer_epoch=2, committed=True
    )
    return write_body(request_type(END, version), message)


@pytest.mark.parametrize("version", range(4))
def test_partitions_that_are_added_get_the_handlers_response(version: int) -> None:
    coordinator = Coordinator()
    partitions = frozenset({TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("b", 3)})
    codes = dict.fromkeys(partitions, ErrorCode.none)
    expected = write_response(ADD, version, 77, added(codes))
    assert served(coordinator, ADD, version, *[an_add(version)] * 2) == [expected] * 2
    assert coordinator.asked == [AddPartitions("till", Producer(7, 2), partitions)] * 2


@pytest.mark.parametrize("version", range(5))
def test_an_outcome_gets_the_handlers_response(version: int) -> None:
    coordinator = Coordinator()
    response = EndTxnResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none)
    expected = write_response(END, version, 77, response)
    assert served(coordinator, END, version, *[an_end(version)] * 2) == [expected] * 2
    assert coordinator.asked == [EndTransaction("till", Producer(7, 2), is_commit=True)] * 2


def added(codes: Codes) -> Added:
    return Added(asyncio.run(_topics(codes, Turns())))


INTERNAL = (parts(name="__consumer_offsets", partitions=(0,)),)


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ADD, 3, an_add(3, v3_and_below_transactional_id="")),
        (ADD, 3, an_add(3, v3_and_below_topics=INTERNAL)),
        (ADD, 3, an_add(3, v3_and_below_transactional_id="x" * 600)),
        (ADD, 4, write_body(request_type(ADD, 4), parts(transactions=()))),
        (END, 4, an_end(4, "")),
        (END, 5, an_end(5)),
    ],
    ids=["no id", "internal", "long", "of brokers", "no id at the end", "raises the epoch"],
)
def test_anything_else_is_left_to_the_handlers(key: ApiKey, version: int, body: bytes) -> None:
    coordinator = Coordinator()
    assert serve(coordinator, key, version, body) is None
    assert coordinator.asked == []


def test_what_is_not_decided_at_once_is_left_to_the_handlers() -> None:
    coordinator = Coordinator(None)
    assert serve(coordinator, ADD, 3, an_add(3)) is None
    assert serve(coordinator, END, 4, an_end(4)) is None
    assert len(coordinator.asked) == 2


def test_nothing_is_decided_where_replicas_have_to_wait() -> None:
    coordinator = Coordinator()
    coordinator.waits = True
    assert serve(coordinator, ADD, 3, an_add(3)) is None
    assert serve(coordinator, END, 4, an_end(4)) is None
    assert coordinator.asked == []


@pytest.mark.parametrize("version", range(4))
def test_partitions_that_are_refused_get_the_handlers_response(version: int) -> None:
    """It is final: the record of a request may be in the log, though not flushed."""
    coordinator = Coordinator(ErrorCode.producer_fenced)
    code = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    codes = {TopicPartition(*each): code for each in (("a", 0), ("b", 1), ("b", 3))}
    expected = write_response(ADD, version, 77, added(codes))
    assert served(coordinator, ADD, version, *[an_add(version)] * 2) == [expected] * 2
    assert len(coordinator.asked) == 2


@pytest.mark.parametrize("version", range(5))
def test_an_outcome_that_is_refused_gets_the_handlers_response_and_is_counted(version: int) -> None:
    coordinator, statistics = Coordinator(ErrorCode.producer_fenced), RequestStatistics()
    code = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    response = EndTxnResponse(throttle_time=NO_THROTTLE, error_code=code)
    expected = write_response(END, version, 77, response)
    assert served(coordinator, END, version, an_end(version), statistics=statistics) == [expected]
    assert statistics.by_api[END].errors == {code: 1}


def test_a_success_is_remembered_but_no_refusal_and_nothing_that_is_large() -> None:
    coordinator = Coordinator(ErrorCode.not_coordinator)
    repeated = RepeatedTransactions(cast(Any, coordinator), RequestStatistics())
    many = (parts(name="b", partitions=tuple(range(9))),)
    large = (
        an_add(3, v3_and_below_topics=many),
        an_add(3, v3_and_below_transactional_id="x" * 101),
    )
    for code, remembered in ((ErrorCode.not_coordinator, 0), (ErrorCode.none, 1)):
        coordinator.code = code
        for body in (*large, an_add(3)):
            assert repeated.serve(ADD, 3, 77, memoryview(body)) is not None
        assert len(repeated._known) == remembered


def test_only_the_last_requests_are_remembered() -> None:
    repeated = RepeatedTransactions(cast(Any, Coordinator()), RequestStatistics())
    for number in range(1_002):
        repeated.serve(END, 4, 77, memoryview(an_end(4, f"till-{number}")))
    assert len(repeated._known) == 1_000
    assert (END, 4, an_end(4, "till-1")) not in repeated._known


# -- on a broker ---------------------------------------------------------------------------------


@pytest.fixture
def client(kafka: Cluster) -> Iterator[Client]:
    with Client("127.0.0.1", int(kafka.address(0).rpartition(":")[2])) as connected:
        create(connected, "orders")
        yield connected


def one(client: Client, producer: Any) -> tuple[ErrorCode, ErrorCode]:
    """A transaction of one partition: the codes of both requests."""
    (code,) = add(client, "till", producer, {"orders": (0,)}).values()
    return code, end(client, "till", producer, version=4).error_code


def test_a_producer_that_was_fenced_is_refused_though_it_repeats_itself(client: Client) -> None:
    producer = init(client, "till")
    assert [one(client, producer) for _ in range(3)] == [(ErrorCode.none, ErrorCode.none)] * 3
    init(client, "till")
    assert one(client, producer) == (ErrorCode.producer_fenced, ErrorCode.producer_fenced)


def test_a_partition_that_was_deleted_is_refused_though_it_was_added_before(
    client: Client,
) -> None:
    producer = init(client, "till")
    assert one(client, producer) == (ErrorCode.none, ErrorCode.none)
    client.call(ApiKey.DELETE_TOPICS, 5, topic_names=("orders",))
    (code,) = add(client, "till", producer, {"orders": (0,)}).values()
    assert code is ErrorCode.unknown_topic_or_partition


def test_an_end_that_is_sent_again_gets_the_answer_that_was_lost(client: Client) -> None:
    producer = init(client, "till")
    assert one(client, producer) == (ErrorCode.none, ErrorCode.none)
    assert end(client, "till", producer, version=4).error_code is ErrorCode.none
    refused = end(client, "till", producer, committed=False, version=4)
    assert refused.error_code is ErrorCode.invalid_txn_state


def test_a_transaction_may_begin_in_the_read_in_which_the_last_one_ended(client: Client) -> None:
    """Its markers are written before it begins."""
    producer = init(client, "till")
    ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    adds = {f"v3_and_below_{name}": value for name, value in ids.items()} | {
        "v3_and_below_transactional_id": "till",
        "v3_and_below_topics": (parts(name="orders", partitions=(0,)),),
    }
    frames = b""
    for number in range(20):
        frames += framed(number, ADD, 3, write_body(request_type(ADD, 3), parts(**adds)))
        ends = parts(transactional_id="till", committed=True, **ids)
        frames += framed(number, END, 4, write_body(request_type(END, 4), ends))
    client._socket.sendall(frames)
    for _ in range(20):
        added, ended = (client._read(int.from_bytes(client._read(4), "big")) for _ in range(2))
        assert added.endswith(bytes(9)), "the code, and tags"
        assert ended == ended[:4] + bytes(8)


def framed(correlation_id: int, key: ApiKey, version: int, body: bytes) -> bytes:
    assert version >= APIS[key].flexible
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    whole = head + b"\0\4test\0" + body
    return len(whole).to_bytes(4, "big") + whole
