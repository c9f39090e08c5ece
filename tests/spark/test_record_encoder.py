"""The record encoder and its pure twin: their bytes, and partitioning as in every client."""

from collections import Counter
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.spark.sink import _record_encoder
from barnabas.spark.sink.record_encoder import (
    Payload,
    PureEncoder,
    RecordEncoder,
    WrongPartition,
    header_section,
    murmur2,
)
from barnabas.wire.records.records import Record, build_batch, read_records

pa: Any = pyarrow
Encoder = type[PureEncoder]
encoders = pytest.mark.parametrize("encoder", [PureEncoder, _record_encoder.RecordEncoder])


def encode(encoder: Any, rows: list[dict[str, Any]], partitions: int, size: int) -> list[Payload]:
    made = encoder(partitions, size, 0)
    full: list[Payload] = made.append(
        pa.array([row.get("value") for row in rows], pa.binary()),
        pa.array([row.get("key") for row in rows], pa.binary()),
        pa.array([row.get("us") for row in rows], pa.int64()),
        pa.array([row.get("partition") for row in rows], pa.int32()),
        pa.array([row.get("headers") for row in rows], pa.binary()),
        1_000,
    )
    return [*full, *made.take()]


@encoders
def test_the_records_are_those_of_the_wire(encoder: Encoder) -> None:
    headers = (("trace", b"\x01"), ("empty", None))
    rows: list[dict[str, Any]] = [
        {"value": b"first", "key": b"k", "us": 5_000_999},
        {"value": None, "key": b"", "us": 4_999_999, "headers": header_section(headers)},
        {"value": b"", "us": -1},
    ]

    (payload,) = encode(encoder, rows, 1, 1 << 20)

    assert payload[:4] == (0, 3, 5_000, 5_000)
    written = [
        Record(0, 5_000, b"k", b"first"),
        Record(1, 4_999, b"", None, headers),
        Record(2, -1, None, b""),
    ]
    assert bytes(payload.records) == bytes(build_batch(written)[61:])


@encoders
def test_a_row_goes_to_its_partition_else_by_its_key_else_after_the_row_before(
    encoder: Encoder,
) -> None:
    rows: list[dict[str, Any]] = [{"key": b"k", "partition": 2}, {"key": b"k"}, {}, {}]

    payloads = encode(encoder, rows, 3, 1 << 20)

    counts = {each.partition: each.record_count for each in payloads}
    assert counts == Counter((2, murmur2(b"k") % 3, 0, 0))


@encoders
def test_a_batch_is_full_before_it_is_too_large(encoder: Encoder) -> None:
    rows = [{"value": bytes(100), "partition": 0}] * 20 + [{"value": bytes(2_000), "partition": 0}]

    payloads = encode(encoder, rows, 1, 1_000)

    assert sum(each.record_count for each in payloads) == 21
    assert all(len(each.records) <= 1_000 or each.record_count == 1 for each in payloads)


@encoders
def test_rows_without_key_go_on_to_the_next_partition_with_the_next_batch(encoder: Encoder) -> None:
    payloads = encode(encoder, [{"value": bytes(400)}] * 12, 3, 1_000)

    assert {each.partition for each in payloads} == {0, 1, 2}


@encoders
@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_does_not_exist_is_refused(encoder: Encoder, partition: int) -> None:
    with pytest.raises(WrongPartition, match=f"{partition}, of 3"):
        encode(encoder, [{"value": b"v", "partition": partition}], 3, 1_000)


# As org.apache.kafka.common.utils.Utils.murmur2 gives them, in Kafka's own test of it.
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_kafka_hashes_them(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0x7FFFFFFF


rows = st.fixed_dictionaries(
    {},
    optional={
        "value": st.none() | st.binary(max_size=200),
        "key": st.none() | st.binary(max_size=20),
        "us": st.none() | st.integers(-(10**15), 10**15),
        "partition": st.none() | st.integers(0, 2),
        "headers": st.none() | st.just(header_section([("h", b"v")])),
    },
)


@given(st.lists(rows, max_size=40), st.integers(1, 1_000), st.integers(0, 40))
def test_the_compiled_twin_writes_the_same(
    listed: list[dict[str, Any]], size: int, cut: int
) -> None:
    results = [
        encode(encoder, listed[:cut], 3, size) + encode(encoder, listed[cut:], 3, size)
        for encoder in (PureEncoder, _record_encoder.RecordEncoder)
    ]

    assert results[0] == results[1]


def test_the_compiled_twin_is_used_where_it_was_built() -> None:
    assert RecordEncoder.__module__ == _record_encoder.__name__


@encoders
def test_columns_that_are_slices_are_read_from_where_they_begin(encoder: Any) -> None:
    values = pa.array([b"no", None, b"a", b"b"], pa.binary()).slice(1)
    keys = pa.array([None, b"k", None, b"l"], pa.binary()).slice(1)
    made = encoder(1, 1_000, 0)
    made.append(values, keys, None, None, None, 7)

    (payload,) = made.take()

    batch = build_batch([]) + payload.records
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = payload.record_count.to_bytes(4, "big")
    read = [(each.key, each.value) for each in read_records(batch)]
    assert read == [(b"k", None), (None, b"a"), (b"l", b"b")]
