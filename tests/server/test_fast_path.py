"""Requests that begin like one before: answered as if each had come on a connection of its own."""

import random
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.cluster.config_admin import Resource
from barnabas.server.cluster.config_alterations import Alteration, Operation
from barnabas.server.network.connection import Connection
from barnabas.server.network.known_requests import LONGEST_SHORTCUT
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.batch import headers
from barnabas.wire.records.records import ControlType, EndTransactionMarker
from tests.server.raw import NOW, Insight, RawClient, batch, fetch, produce, with_broker

TOPIC = 2
CONFIGS = (
    ("max.message.bytes", "90"),
    ("cleanup.policy", "compact"),
    ("message.timestamp.type", "LogAppendTime"),
    ("flush.messages", "1"),
)


def connection_of(insight: Insight, client: RawClient) -> Connection:
    return next(one for one in insight.connections._idle_watches if one.port == client.port)


def produced(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    has_time = partition.log_append_time is not None
    return partition.error_code, partition.base_offset, partition.log_start_offset, has_time


def fetched(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partitions
    offsets = [header.base_offset for _, header in headers(bytes(partition.records or b""))]
    return (
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.aborted_transactions,
        offsets,
    )


def sent_batch(chance: random.Random) -> bytes:
    """One that is fine, for most of the time."""
    values = [b"x" * 10] * chance.randint(1, 2)
    match chance.choice((0, 1, 1, 1, 2, 3, 3, 3, 3, 3)):
        case 0:
            return batch(*values)[:-1] + b"?"  # its CRC is wrong
        case 1:
            sequence = chance.choice((0, 0, 0, 1, 2))  # the first, a retry, a gap, or the next
            return batch(*values, producer_id=1000, producer_epoch=0, base_sequence=sequence)
        case 2:
            return batch(b"y" * 5000)
        case _:
            return batch(*values)


def sent_in_transaction(chance: random.Random) -> bytes:
    """One of a transactional producer: it may be fenced, begin a transaction, or be sent again."""
    return batch(
        b"x" * 10,
        producer_id=2000,
        producer_epoch=chance.choice((0, 0, 0, 0, 1)),
        base_sequence=chance.choice((0, 0, 1, 1, 2, 3)),
        transactional=chance.random() < 0.9,
    )


class Step:
    """A request, or a change of the topic that it is for, drawn from a seed."""

    def __init__(self, chance: random.Random) -> None:
        self._kind = chance.choice(
            ["produce"] * 6 + ["transaction"] * 8 + ["end"] + ["fetch"] * 6 + ["alter", "anew"]
        )
        self._partition = chance.choice((0, 0, 0, 1, 2))
        self._batch = sent_batch(chance)
        self._of_transaction = sent_in_transaction(chance)
        self._id = chance.choice(("till", "till", "till", "till", "drawer", None))
        self._marker = EndTransactionMarker(ControlType(chance.randint(0, 1)), 0)
        self._acks = chance.choice((1, 1, -1))
        self._produce_version = chance.choice((7, 8, 9, 9, 11))
        self._fetch_version = chance.choice((4, 7, 11, 11, 12, 12))
        self._offset = chance.choice((0, 0, 1, 2, 99))
        self._fetch_options: dict[str, Any] = {
            "isolation_level": chance.choice((0, 0, 1)),
            "epoch": chance.choice((-1, -1, 0, 5)),
            "partition_max_bytes": chance.choice((100, 10_000)),
            "min_bytes": chance.choice((1, 1, 200)),
        }
        self._config = chance.choice(CONFIGS)
        self._set = chance.random() < 0.5

    async def take(self, insight: Insight, client: RawClient, topic: str) -> Any:
        broker = insight.running.broker
        wanted = (topic, self._partition)
        match self._kind:
            case "produce":
                request = produce(
                    (*wanted, self._batch), acks=self._acks, version=self._produce_version
                )
                return produced(await client.ask(request))
            case "transaction":
                request = produce(
                    (*wanted, self._of_transaction),
                    acks=self._acks,
                    version=self._produce_version,
                    transactional_id=self._id,
                )
                return produced(await client.ask(request))
            case "end":
                leader = insight.running.broker.replicas.find(*wanted)
                with suppress(BrokerError):  # of a producer that was fenced
                    return leader and leader.append_marker(2000, 0, self._marker, NOW)
            case "fetch":
                version, options = self._fetch_version, self._fetch_options
                request = fetch((*wanted, self._offset), version=version, **options)
                return fetched(await client.ask(request))
            case "alter":
                name, value = self._config
                operation = Operation.SET if self._set else Operation.DELETE
                change = [Alteration(name, operation, value)]
                await broker.config_admin.alter(Resource(TOPIC, topic), change, validate_only=False)
            case _:
                topic_id = insight.topic_id(topic)
                await broker.topics.delete(topic)
                await broker.topics.gone(topic, topic_id, timeout_ms=10_000)
                await insight.create(topic, partitions=2)
        return None


@pytest.mark.parametrize("seed", range(12))
def test_a_connection_answers_as_many_connections_would(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    steps = [Step(chance) for _ in range(120)]

    async def scenario(insight: Insight) -> None:
        # Names of one length: what is remembered of the one must not be taken for the other.
        for topic in ("one-0", "each0"):
            await insight.create(topic, partitions=2)
        client = await insight.connect()
        for number, step in enumerate(steps):
            fresh = await insight.connect()
            expected = await step.take(insight, fresh, "each0")
            assert await step.take(insight, client, "one-0") == expected, number
            await fresh.close()

    with_broker(tmp_path, scenario, transaction_partition_verification_enable="false")


def test_what_tags_make_long_is_not_remembered(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        for size, remembered in ((LONGEST_SHORTCUT, 0), (1, 1)):
            plain = produce(("orders", 0, batch(b"x")))
            after_client_id = 4 + 10 + len("raw")
            assert plain[after_client_id] == 0
            tags = b"\x01\x63" + bytes((size & 0x7F | 0x80, size >> 7)) + bytes(size)
            body = plain[4:after_client_id] + tags + plain[after_client_id + 1 :]
            await client.ask(struct.pack(">i", len(body)) + body)
            assert len(connection_of(insight, client)._known.shortcuts) == remembered

    with_broker(tmp_path, scenario)


def test_an_idempotent_producer_has_a_shortcut_from_its_second_request_on(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        for sequence in range(3):
            sent = batch(b"x", producer_id=1000, producer_epoch=0, base_sequence=sequence)
            answer = await client.ask(produce(("orders", 0, sent)))
            assert produced(answer)[:2] == (ErrorCode.none, sequence)
            assert len(connection_of(insight, client)._known.shortcuts) == 1

    with_broker(tmp_path, scenario)


def test_a_transaction_has_a_shortcut_from_its_second_batch_in_a_partition_on(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        statistics = insight.state.statistics.by_api[ApiKey.PRODUCE]
        marker = EndTransactionMarker(ControlType.COMMIT, 0)
        for transaction in range(2):
            for number in range(4):
                sequence = 4 * transaction + number
                sent = batch(
                    b"x",
                    producer_id=1000,
                    producer_epoch=0,
                    base_sequence=sequence,
                    transactional=True,
                )
                answer = await client.ask(produce(("orders", 0, sent), transactional_id="till"))
                assert produced(answer)[:2] == (ErrorCode.none, sequence + transaction)
            leader = insight.leader("orders")
            assert leader.last_stable_offset == 5 * transaction
            leader.append_marker(1000, 0, marker, NOW)
            assert leader.last_stable_offset == leader.log.log_end_offset
        # The first of each transaction, and the one that the connection remembered.
        assert (statistics.dispatched, statistics.repeated) == (3, 5)

    with_broker(tmp_path, scenario, transaction_partition_verification_enable="false")


def test_internal_topics_are_not_written_by_the_short_way_either(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("__consumer_offsets", cleanup_policy="delete")
        client = await insight.connect()
        answer = await client.ask(produce(("__consumer_offsets", 0, batch(b"x"))))
        assert produced(answer)[0] is ErrorCode.invalid_topic_exception
        assert not connection_of(insight, client)._known.shortcuts

    with_broker(tmp_path, scenario)
