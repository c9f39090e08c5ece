"""Batches that no consumer could read: refused; what is acknowledged is read by librdkafka.

`BARNABAS_FUZZ=long` sends a million mutated batches instead of some thousands, and
`BARNABAS_FUZZ_BATCHES` another number; `BARNABAS_FUZZ_SEED` sends others.
"""

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from cramjam import zstd

from barnabas.base.errors import ErrorCode
from barnabas.wire.records.batch import HEADER_SIZE, read_header, set_create_time
from barnabas.wire.records.compression import Codec, compress
from barnabas.wire.records.records import Record, build_batch, write_varint
from tests.support.broker import BrokerProcess
from tests.support.clients import PATIENCE_S
from tests.support.confluent_client import ConfluentAdmin
from tests.support.mutated_batches import NOW, mutated, with_payload, with_records
from tests.support.raw import RawConnection

LONG: Final = os.environ.get("BARNABAS_FUZZ") == "long"
BATCHES: Final = int(os.environ.get("BARNABAS_FUZZ_BATCHES", "1000000" if LONG else "4000"))
AT_ONCE: Final = 200
PER_TOPIC: Final = 4_000
YEAR_5000: Final = 95_617_584_000_000

every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[RawConnection]:
    with RawConnection(broker.bootstrap) as connection:
        yield connection


def read_all(broker: BrokerProcess, topic: str) -> list[tuple[int, int]]:
    """Offset and timestamp of every record that librdkafka reads, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        read: list[tuple[int, int]] = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"nothing is read after {read[-1:]}"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, (read[-1:], error)
                return read
            message.headers()  # which librdkafka parses on demand
            read.append((message.offset() or 0, message.timestamp()[1]))
    finally:
        consumer.close()


def three(codec: Codec = Codec.NONE) -> bytearray:
    return build_batch([Record(n, NOW + n, b"k", b"value") for n in range(3)], codec=codec)


def same_offsets() -> bytes:
    """Three records with the offset deltas 0, 0, 0."""
    data = bytearray()
    for _ in range(3):
        body = b"\0\0\0\2k\2v\0"
        write_varint(data, len(body))
        data += body
    return bytes(data)


REFUSED: Final[dict[str, Callable[[Codec], bytearray]]] = {
    "garbage instead of records": lambda codec: with_records(three(), b"garbage!" * 9, codec),
    "one record, three announced": lambda codec: with_records(
        three(), bytes(build_batch([Record(0, NOW, b"k", b"v")])[HEADER_SIZE:]), codec
    ),
    "three records, one announced": lambda codec: with_payload(
        three(),
        compress(codec, bytes(three()[HEADER_SIZE:])),
        codec,
        last_offset_delta=0,
        record_count=1,
    ),
    "offset deltas 0, 0, 0": lambda codec: with_records(three(), same_offsets(), codec),
}


@every_codec
@pytest.mark.parametrize("made", REFUSED.values(), ids=list(REFUSED))
def test_what_no_consumer_could_read_is_an_invalid_record(
    broker: BrokerProcess,
    connection: RawConnection,
    some_admin: ConfluentAdmin,
    topic: str,
    codec: Codec,
    made: Callable[[Codec], bytearray],
) -> None:
    some_admin.create_topic(topic)
    assert connection.produce(topic, build_batch([Record(0, NOW, b"k", b"first")])) == (0, 0)
    assert connection.produce(topic, made(codec)) == (ErrorCode.invalid_record, -1)
    assert connection.produce(topic, three()) == (0, 1)
    assert [offset for offset, _ in read_all(broker, topic)] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("size", [20, 200_000])
def test_what_does_not_decompress_is_an_invalid_record(
    connection: RawConnection, some_admin: ConfluentAdmin, topic: str, codec: Codec, size: int
) -> None:
    some_admin.create_topic(topic)
    for payload in (Random(1).randbytes(size), compress(codec, bytes(size))[:-1], b""):
        batch = with_payload(three(), payload, codec)
        assert connection.produce(topic, batch) == (ErrorCode.invalid_record, -1)


@every_codec
def test_a_false_greatest_timestamp_is_corrected(
    broker: BrokerProcess,
    connection: RawConnection,
    some_admin: ConfluentAdmin,
    topic: str,
    codec: Codec,
) -> None:
    some_admin.create_topic(topic)
    for claimed in (YEAR_5000, 5):
        batch = three(codec)
        set_create_time(batch, claimed)
        assert connection.produce(topic, batch)[0] == 0
    expected = [NOW, NOW + 1, NOW + 2] * 2
    assert [timestamp for _, timestamp in read_all(broker, topic)] == expected
    first = broker.segments(topic)
    assert read_header(first).max_timestamp == NOW + 2


def bomb(size: int) -> bytearray:
    """One record of so many zeros, as a few bytes of zstd."""
    batch = build_batch([Record(0, NOW, b"k", b"")])
    body = bytearray(b"\0\0\0\2k")
    write_varint(body, size)
    data = bytearray()
    write_varint(data, len(body) + size + 1)
    # Frames one behind the other: the whole is never in memory here.
    step = 30_000_000
    frames = [bytes(zstd.compress(bytes(data + body)))]
    zeros = bytes(zstd.compress(bytes(step)))
    frames += [zeros] * (size // step)
    frames.append(bytes(zstd.compress(bytes(size % step + 1))))
    return with_payload(batch, b"".join(frames), Codec.ZSTD)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_batch_that_decompresses_beyond_the_limit_is_too_large(
    broker: BrokerProcess,
    connection: RawConnection,
    some_admin: ConfluentAdmin,
    topic: str,
    policy: str,
) -> None:
    some_admin.create_topic(topic, configs={"cleanup.policy": policy})
    assert connection.produce(topic, bomb(900_000_000)) == (ErrorCode.message_too_large, -1)
    assert connection.produce(topic, bomb(31_000_000)) == (0, 0)
    assert connection.produce(topic, three()) == (0, 1)
    assert [offset for offset, _ in read_all(broker, topic)] == [0, 1, 2, 3]


def test_large_batches_keep_their_order_among_small_ones(
    broker: BrokerProcess, connection: RawConnection, some_admin: ConfluentAdmin, topic: str
) -> None:
    some_admin.create_topic(topic)
    value = Random(1).randbytes(100_000)
    large = build_batch([Record(0, NOW, b"k", value)], codec=Codec.LZ4)
    given = connection.produce_all(topic, [large, three(), bomb(2_000_000), three(), large] * 5)
    assert [error for error, _ in given] == [0] * 25
    offsets = [offset for _, offset in given]
    assert offsets == sorted(offsets)
    assert [offset for offset, _ in read_all(broker, topic)] == list(range(45))


@pytest.mark.timeout(3_600 if LONG else 120)
def test_a_mutated_batch_is_refused_or_read(
    broker: BrokerProcess, connection: RawConnection, some_admin: ConfluentAdmin, topic: str
) -> None:
    random = Random(int(os.environ.get("BARNABAS_FUZZ_SEED", "20")))
    acknowledged = 0
    for start in range(0, BATCHES, PER_TOPIC):
        name = f"{topic}-{start}"
        some_admin.create_topic(name)
        end = 0
        for _ in range(0, min(PER_TOPIC, BATCHES - start), AT_ONCE):
            sent = [mutated(random) for _ in range(AT_ONCE)]
            for batch, (error, offset) in zip(
                sent, connection.produce_all(name, sent), strict=True
            ):
                if not error:
                    acknowledged += 1
                    end = max(end, offset + read_header(batch).record_count)
        found = [offset for offset, _ in read_all(broker, name)]
        assert found == list(range(end)), _gap(found)
        some_admin.delete_topic(name)
    print(f"{BATCHES} batches, {acknowledged} acknowledged and read")
    assert BATCHES // 20 < acknowledged < BATCHES


def _gap(found: list[int]) -> str:
    wrong = next((n for n, offset in enumerate(found) if n != offset), len(found))
    return f"offset {wrong} is not read"
