"""Records into Arrow columns: the compiled decoder and its pure twin, under one suite."""

from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.spark.source import record_decoder
from barnabas.spark.source.arrow_columns import ArrowBatches
from barnabas.spark.source.record_decoder import LEAST_LONG, MOST_LONG, PureColumns
from barnabas.wire.records.batch import HEADER_SIZE, read_header
from barnabas.wire.records.records import Record, build_batch

pa: Any = pyarrow
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
# Both are the pure one where the package was built without a C compiler.
KINDS = [PureColumns, record_decoder.Columns]


@pytest.fixture(params=KINDS, ids=["pure", "compiled"])
def columns(request: pytest.FixtureRequest) -> Any:
    """Creates columns, by default for all offsets and times and with headers."""

    def make(
        start: int = 0,
        end: int = MOST_LONG,
        earliest: int = LEAST_LONG,
        latest: int = MOST_LONG,
        headers: bool = True,
    ) -> Any:
        return request.param(start, end, earliest, latest, headers)

    return make


def append(columns: Any, records: list[Record], log_append_time: int | None = None) -> None:
    batch = build_batch(records, log_append_time=log_append_time)
    header = read_header(batch)
    columns.append(
        memoryview(batch)[HEADER_SIZE:],
        header.base_offset,
        header.max_timestamp if header.log_append_time else header.base_timestamp,
        header.log_append_time,
        header.record_count,
    )


def rows(columns: Any) -> list[dict[str, Any]]:
    batch = ArrowBatches(SCHEMA, "orders", 3).batch(columns.take())
    batch.validate(full=True)
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    found = batch.drop_columns(["timestamp"]).to_pylist()
    return [row | {"timestamp": time} for row, time in zip(found, times, strict=True)]


def expected(record: Record, timestamp: int | None = None) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers]
    return {
        "key": record.key,
        "value": record.value,
        "topic": "orders",
        "partition": 3,
        "offset": record.offset,
        "timestamp": (record.timestamp if timestamp is None else timestamp) * 1000,
        "timestampType": int(timestamp is not None),
        "headers": headers or None,
    }


contents = st.none() | st.binary(max_size=300)
records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 4_000_000_000_000),
        key=contents,
        value=contents,
        headers=st.lists(st.tuples(st.text(max_size=20), contents), max_size=3).map(tuple),
    ),
    max_size=40,
).map(lambda given: [record._replace(offset=n) for n, record in enumerate(given)])


@given(batches=st.lists(records, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_written_records_are_decoded(columns: Any, batches: list[list[Record]]) -> None:
    made = columns()

    for batch in batches:
        append(made, batch)

    assert made.rows == sum(len(batch) for batch in batches)
    assert rows(made) == [expected(record) for batch in batches for record in batch]
    assert made.rows == 0
    assert rows(made) == []


@given(batch=records, cut=st.integers(0, 400), byte=st.integers(0, 255))
@settings(max_examples=200)
def test_damaged_records_are_an_error_or_the_same_in_both(
    batch: list[Record], cut: int, byte: int
) -> None:
    data = bytearray(build_batch(batch)[HEADER_SIZE:])
    if data:
        data[cut % len(data)] = byte
    results: list[Any] = []
    for kind in KINDS:
        made = kind(0, MOST_LONG, LEAST_LONG, MOST_LONG, True)
        try:
            made.append(bytes(data), 0, 0, False, len(batch))
        except ValueError:
            results.append(None)
        else:
            results.append(ArrowBatches(SCHEMA, "orders", 3).batch(made.take()))

    assert results[0] == results[1]


def test_only_the_wanted_offsets_are_decoded(columns: Any) -> None:
    made = columns(start=3, end=6)

    append(made, [Record(n, n, None, b"v") for n in range(10)])

    assert [row["offset"] for row in rows(made)] == [3, 4, 5]


def test_only_the_wanted_timestamps_are_decoded(columns: Any) -> None:
    made = columns(earliest=20, latest=40)

    append(made, [Record(n, t, None, b"v") for n, t in enumerate([10, 30, 20, 50, 40])])

    assert [row["offset"] for row in rows(made)] == [1, 2, 4]


def test_with_log_append_time_all_have_the_time_of_the_batch(columns: Any) -> None:
    made = columns()
    written = [Record(0, 10, b"k", b"v"), Record(1, 20, None, None)]

    append(made, written, log_append_time=77)

    assert rows(made) == [expected(record, 77) for record in written]


def test_without_headers_there_is_no_such_column(columns: Any) -> None:
    made = columns(headers=False)

    append(made, [Record(0, 1, b"k", b"v", (("h", b"x"),))])

    assert made.take()[-1] is None


def test_nulls_at_the_end_of_many_values_are_nulls(columns: Any) -> None:
    made = columns()
    written = [Record(n, 0, b"" if n % 7 else None, b"v" if n < 900 else None) for n in range(1000)]

    append(made, written)

    assert rows(made) == [expected(record) for record in written]


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x02", b"\x0c" + bytes(5), b"\xff" * 20, bytes([12]) + bytes(6) + b"rest"],
)
def test_truncated_or_overlong_records_are_an_error(columns: Any, payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        columns().append(payload, 0, 0, False, 1)


def test_a_timestamp_that_overflows_microseconds_is_an_error(columns: Any) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        append(columns(), [Record(0, MOST_LONG // 100, None, b"v")])
