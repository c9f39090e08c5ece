"""Records, decoded and encoded as other clients do, and damage that never gets far."""

import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.wire.records.batch import HEADER, HEADER_SIZE, check_crc, read_header, set_crc
from barnabas.wire.records.compression import Codec, compress
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
    read_marker,
    read_records,
)

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

BYTES = st.none() | st.binary(max_size=300)
TIMESTAMPS = st.integers(-1, 2**62)
HEADERS = st.lists(st.tuples(st.text(max_size=10), BYTES), max_size=3).map(tuple)
FIELDS = st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS)

# Three records as librdkafka 2.16 sent them, the uncompressed ones from an idempotent producer.
FROM_LIBRDKAFKA = {
    Codec.NONE: (
        "0000000000000000000001310000000002b7de9cb80000000000020000018bcfe568000000018bcf"
        "e56802000000000000109200030000000000000003b001000000046b30900176616c75652076616c"
        "75652076616c75652076616c75652076616c75652076616c75652076616c75652076616c75652076"
        "616c75652076616c75652076616c75652076616c7565200402680278026e01a201000202046b3190"
        "0176616c75652076616c75652076616c75652076616c75652076616c75652076616c75652076616c"
        "75652076616c75652076616c75652076616c75652076616c75652076616c75652000a20100040404"
        "6b32900176616c75652076616c75652076616c75652076616c75652076616c75652076616c756520"
        "76616c75652076616c75652076616c75652076616c75652076616c75652076616c75652000"
    ),
    Codec.GZIP: (
        "00000000000000000000007400000000023164cb160001000000020000018bcfe568000000018bcf"
        "e56802ffffffffffffffffffffffffffff000000031f8b0800000000000003dbc0c8c0c0c0926d30"
        "81b12c31a73455817292852983a982298f7111230313134bb621f54c66001ac9c2c2926d44452301"
        "f24e386000010000"
    ),
    Codec.SNAPPY: (
        "00000000000000000000006e000000000273388bf70002000000020000018bcfe568000000018bcf"
        "e56802ffffffffffffffffffffffffffff0000000380023cb001000000046b30900176616c756520"
        "ee060009063c0402680278026e01a201000202046b31fe5a00195a2000a201000404046b32fe5300"
        "1d53"
    ),
    Codec.LZ4: (
        "00000000000000000000007d000000000284a762570003000000020000018bcfe568000000018bcf"
        "e56802ffffffffffffffffffffffffffff0000000304224d186040823d000000ff01b00100000004"
        "6b30900176616c75652006002fff010402680278026e01a201000202046b315a00379f00a2010004"
        "04046b32530033506c7565200000000000"
    ),
    Codec.ZSTD: (
        "000000000000000000000071000000000289bd456b0004000000020000018bcfe568000000018bcf"
        "e56802ffffffffffffffffffffffffffff0000000328b52ffd0058bd01009402b001000000046b30"
        "900176616c7565200402680278026e01a201000202046b3100a201000404046b32030068057a5c17"
        "d0e591ca12"
    ),
}
LIBRDKAFKA_RECORDS = [
    Record(
        n,
        1_700_000_000_000 + n,
        b"k%d" % n,
        b"value " * 12,
        () if n else (("h", b"x"), ("n", None)),
    )
    for n in range(3)
]

COMMIT_MARKER = (
    "000000000000000000000042ffffffff02088602a10030000000000000018bcfe568000000018bcf"
    "e5680000000000000010920003ffffffff000000012000000008000000010c00000000000c00"
)


def plain_records(count: int = 60) -> list[Record]:
    return [
        Record(n, 1_700_000_000_000 + n * 37 % 11, b"key-%d" % n, b"some value " * 9, ())
        for n in range(count)
    ] + [Record(count, 1_700_000_000_500, None, None, (("trace", b"\x00\x01"), ("é", None)))]


def corrupt(batch: bytes | bytearray) -> str:
    with pytest.raises(BrokerError) as raised:
        read_records(batch)
    assert raised.value.code is ErrorCode.corrupt_message
    return str(raised.value)


@given(
    st.lists(FIELDS, min_size=1, max_size=20),
    st.sampled_from(Codec),
    st.integers(0, 2**62),
    st.lists(st.integers(1, 1000), min_size=20, max_size=20),
)
def test_records_with_sparse_offsets_come_back_as_they_were(
    fields: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: Codec,
    base_offset: int,
    gaps: list[int],
) -> None:
    records = [Record(base_offset + sum(gaps[:n]), *field) for n, field in enumerate(fields)]
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    assert check_crc(batch)
    assert read_records(batch) == records
    header = read_header(batch)
    assert header.record_count == len(records)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)


@given(st.data())
def test_a_damaged_batch_raises_a_broker_error_or_nothing(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(Codec))
    batch = build_batch(plain_records(5), codec=codec)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(batch) - 1))
        batch[at] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(BrokerError):
        read_records(batch[: data.draw(st.integers(0, len(batch)))])


@given(st.binary(max_size=60), st.integers(0, 5))
def test_random_bytes_as_records_raise_a_broker_error_or_nothing(data: bytes, count: int) -> None:
    header = read_header(build_batch([]))
    header = header._replace(batch_length=HEADER_SIZE - 12 + len(data), record_count=count)
    with suppress(BrokerError):
        read_records(HEADER.pack(*header) + data)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_cut_anywhere_is_corrupt(codec: Codec) -> None:
    batch = build_batch(plain_records(3), codec=codec)
    for size in range(len(batch)):
        corrupt(batch[:size])


def test_the_reader_says_what_is_wrong() -> None:
    batch = build_batch(plain_records(2))
    header = read_header(batch)

    def changed(**fields: int) -> bytes:
        return HEADER.pack(*header._replace(**fields)) + batch[HEADER_SIZE:]

    assert corrupt(changed(magic=1)) == "magic is 1, not 2"
    assert "-1 records" in corrupt(changed(record_count=-1))
    assert "ends within record 3" in corrupt(changed(record_count=4))
    assert "are left after the last record" in corrupt(changed(record_count=2))
    assert "says it has 11 bytes" in corrupt(changed(batch_length=-1))
    assert "a timestamp of" in corrupt(changed(base_timestamp=2**63 - 1))


def test_a_number_that_never_ends_is_corrupt() -> None:
    batch = build_batch([])
    body = b"\x80" * 11
    header = read_header(batch)._replace(batch_length=49 + len(body), record_count=1)
    assert "more than 10 bytes" in corrupt(HEADER.pack(*header) + body)


def test_records_larger_than_the_limit_are_refused_before_they_are_decoded() -> None:
    batch = build_batch([Record(0, 0, None, bytes(100_000))], codec=Codec.ZSTD)
    with pytest.raises(BrokerError, match="more than 1000 bytes"):
        read_records(batch, max_size=1000)


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = build_batch(plain_records(3), log_append_time=77)
    header = read_header(batch)
    assert header.log_append_time
    assert header.max_timestamp == 77
    assert {record.timestamp for record in read_records(batch)} == {77}


def test_a_delete_horizon_replaces_the_base_timestamp() -> None:
    records = plain_records(3)
    batch = build_batch(records, delete_horizon=2_000_000_000_000)
    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == 2_000_000_000_000
    assert read_records(batch) == records


def test_a_compacted_batch_keeps_its_range_even_when_empty() -> None:
    batch = build_batch([], base_offset=10, last_offset=19, producer_id=1, base_sequence=5)
    header = read_header(batch)
    assert (header.record_count, header.next_offset, header.last_sequence) == (0, 20, 14)
    assert read_records(batch) == []


def test_header_keys_that_are_no_utf8_survive() -> None:
    batch = build_batch([Record(0, 0, None, None, (("\udcff\udc80", b""),))])
    assert b"\xff\x80" in batch
    assert read_records(batch) == [Record(0, 0, None, None, (("\udcff\udc80", b""),))]


def test_what_does_not_fit_a_batch_is_an_invalid_record() -> None:
    with pytest.raises(BrokerError) as raised:
        build_batch([Record(0, 0, None, None), Record(2**40, 0, None, None)])
    assert raised.value.code is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", Codec)
def test_what_librdkafka_sent_is_read(codec: Codec) -> None:
    batch = bytes.fromhex(FROM_LIBRDKAFKA[codec])
    assert check_crc(batch)
    assert read_header(batch).codec == codec
    assert read_records(batch) == LIBRDKAFKA_RECORDS


def test_what_librdkafka_sent_is_what_is_built() -> None:
    batch = build_batch(
        LIBRDKAFKA_RECORDS, leader_epoch=0, producer_id=4242, producer_epoch=3, base_sequence=0
    )
    assert batch.hex() == FROM_LIBRDKAFKA[Codec.NONE]


def test_a_commit_marker_has_these_bytes() -> None:
    marker = EndTransactionMarker(ControlType.COMMIT, coordinator_epoch=12)
    batch = build_marker(marker, 1_700_000_000_000, producer_id=4242, producer_epoch=3)
    assert batch.hex() == COMMIT_MARKER


@pytest.mark.parametrize("control_type", ControlType)
def test_an_end_transaction_marker_comes_back(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, coordinator_epoch=12)
    batch = build_marker(marker, timestamp=1000, producer_id=5, producer_epoch=3)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, -1)
    assert read_marker(batch) == marker
    reader: Any = KafkaPythonBatch
    (record,) = reader(bytes(batch))
    assert (record.commit, record.abort) == (
        control_type is ControlType.COMMIT,
        control_type is ControlType.ABORT,
    )


def test_other_control_batches_say_nothing_and_short_ones_are_corrupt() -> None:
    assert read_marker(build_batch([], control=True)) is None
    leader_change = Record(0, 0, b"\x00\x00\x00\x02", b"")
    assert read_marker(build_batch([leader_change], control=True)) is None
    for key, value in [(None, None), (b"\x00\x00\x00", b""), (b"\x00\x00\x00\x01", b"\x00" * 5)]:
        with pytest.raises(BrokerError, match="too short"):
            read_marker(build_batch([Record(0, 0, key, value)], control=True))
    with pytest.raises(BrokerError, match="of version -1"):
        read_marker(build_batch([Record(0, 0, b"\xff\xff\x00\x01", b"\x00" * 6)], control=True))


def ours(records: Iterable[Any]) -> list[Record]:
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


@pytest.mark.parametrize(
    ("reader", "codec"),
    [(AiokafkaBatch, codec) for codec in Codec]
    + [(KafkaPythonBatch, Codec.NONE), (KafkaPythonBatch, Codec.GZIP)],
)
def test_clients_read_what_is_built(reader: Any, codec: Codec) -> None:
    records = plain_records()
    batch = reader(bytes(build_batch(records, codec=codec)))
    assert batch.validate_crc()
    assert ours(batch) == records


@pytest.mark.parametrize(
    ("builder", "codec"),
    [(AiokafkaBuilder, codec) for codec in Codec]
    + [(KafkaPythonBuilder, Codec.NONE), (KafkaPythonBuilder, Codec.GZIP)],
)
def test_what_clients_build_is_read(builder: Any, codec: Codec) -> None:
    theirs = builder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=4,
        producer_epoch=2,
        base_sequence=100,
        batch_size=1_000_000,
    )
    records = plain_records()
    for record in records:
        theirs.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    batch = bytes(theirs.build())
    assert check_crc(batch)
    header = read_header(batch)
    assert header.codec == codec
    assert header.is_transactional
    assert read_records(batch) == records
    if codec is Codec.NONE:
        same = build_batch(
            records,
            leader_epoch=header.leader_epoch,
            transactional=True,
            producer_id=4,
            producer_epoch=2,
            base_sequence=100,
        )
        assert same == batch


def test_framings_of_other_clients_are_read() -> None:
    records = plain_records()
    plain = build_batch(records)
    once, rest = bytes(plain[HEADER_SIZE:]), read_header(plain)
    two_frames = compress(Codec.ZSTD, once[:1000]) + compress(Codec.ZSTD, once[1000:])
    header = rest._replace(
        attributes=int(Codec.ZSTD), batch_length=HEADER_SIZE - 12 + len(two_frames)
    )
    batch = bytearray(HEADER.pack(*header) + two_frames)
    set_crc(batch)
    assert read_records(batch) == records
