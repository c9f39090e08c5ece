"""Batches on their way to brokers that are killed amid it; and the request that carries them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.produce import Produce, Produced, write_produce_request
from barnabas.client.security import Frame
from barnabas.spark.exactly_once.exactly_once_writer import commit, stage
from barnabas.spark.sink import batch_sender as sender_module
from barnabas.spark.sink.batch_sender import (
    MOST_IN_FLIGHT,
    ProducerId,
    Sender,
    WriteFailed,
    next_sequence,
    numbered,
)
from barnabas.spark.sink.spark_sink import send
from barnabas.spark.source.source_options import TopicPartition
from barnabas.wire.records.batch import check_crc, read_header
from barnabas.wire.records.records import Record, build_batch
from tests.spark.conftest import create_topic
from tests.spark.written import rows, sink, values
from tests.support.broker import BrokerProcess

LISTED = [f"row {number}" for number in range(200)]


def test_a_broker_killed_amid_a_write_has_every_record_once(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic, 2)

    def killing() -> Iterator[Any]:
        for number, batch in enumerate(rows(LISTED)):
            if number in (5, 12):
                broker.kill()
                broker.start()
            yield batch

    send(*sink(broker.bootstrap, topic), killing())

    assert sorted(values(broker.bootstrap, topic)) == sorted(LISTED)


def test_a_broker_killed_amid_a_commit_has_every_record_once(
    fresh_broker: Callable[..., BrokerProcess], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic, 2)
    options, columns = sink(broker.bootstrap, topic)
    written = stage("killed", 0, options, columns, rows(LISTED))
    sent = 0
    plainly = Sender.send

    def killing(self: Sender, *arguments: Any) -> None:
        nonlocal sent
        sent += 1
        plainly(self, *arguments)
        if sent in (1, 8):
            broker.kill()
            broker.start()

    monkeypatch.setattr(Sender, "send", killing)
    commit([written], 0, options.connection, SystemClock())

    assert sorted(values(broker.bootstrap, topic)) == sorted(LISTED)


def test_a_broker_that_stays_away_is_given_up_after_the_delivery_timeout(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic)
    timeouts = {"kafka.delivery.timeout.ms": "300", "kafka.default.api.timeout.ms": "300"}

    def killing() -> Iterator[Any]:
        yield from rows(LISTED)
        broker.kill()
        yield from rows(LISTED)

    with pytest.raises(Exception, match=r"no broker answers|could not be written"):
        send(*sink(broker.bootstrap, topic, **timeouts), killing())


def test_a_gap_in_the_numbers_is_refused(served: BrokerProcess, topic: str) -> None:
    create_topic(served.bootstrap, topic)
    options, _ = sink(served.bootstrap, topic)
    producer = ProducerId(987_654_321, 0)
    with Sender(options.connection) as sender:
        for sequence in (0, 5):
            batch = numbered(build_batch([Record(0, 0, None, b"v")]), producer, sequence)
            sender.send(TopicPartition(topic, 0), batch)
        with pytest.raises(WriteFailed, match="it lacks what was written before"):
            sender.flush()


def test_after_a_lost_connection_no_more_is_on_its_way_than_a_broker_remembers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    arrived: list[bytes] = []

    class Connection:
        """The first one is lost when it is asked for an answer."""

        def __init__(self) -> None:
            self.unanswered = self.most = 0
            made.append(self)

        client_id = "test"

        def send(self, frame: Frame) -> None:
            self.unanswered += 1
            self.most = max(self.most, self.unanswered)
            arrived.append(frame(1))

        def receive(self) -> memoryview:
            if made[0] is self:
                raise PeerGone("killed")
            self.unanswered -= 1
            return memoryview(b"")

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(sender_module, "connect", lambda *_: Connection())
    monkeypatch.setattr(
        sender_module, "read_produce_response", lambda *_: Produced(ErrorCode.none, 0)
    )
    monkeypatch.setattr(Sender, "_address", lambda *_: ("broker", 9092))
    options, _ = sink("127.0.0.1:9092", "orders")
    batches = [bytes([number]) for number in range(20)]

    with Sender(options.connection) as sender:
        for batch in batches:
            sender.send(TopicPartition("orders", 0), batch)
        sender.flush()

    assert [connection.most for connection in made] == [MOST_IN_FLIGHT, MOST_IN_FLIGHT]
    sent = [
        write_produce_request(9, 1, "test", Produce("orders", 0, batch, -1, 30_000))
        for batch in batches
    ]
    assert arrived == sent[:MOST_IN_FLIGHT] + sent


# -- numbers -----------------------------------------------------------------


def test_a_batch_gets_its_numbers_and_its_crc() -> None:
    batch = numbered(build_batch([Record(0, 5, b"k", b"v")]), ProducerId(2**40, 3), 77)

    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 77)
    assert check_crc(batch)


def test_after_the_largest_number_comes_zero() -> None:
    assert next_sequence(2**31 - 3, 2) == 2**31 - 1
    assert next_sequence(2**31 - 3, 3) == 0
