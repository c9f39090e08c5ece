"""Validation of batches by a leader: what it refuses, what it changes, and what it leaves alone."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.config.topic_config import TopicConfig
from barnabas.log.validation import InvalidRecords, must_recompress, validate
from barnabas.wire.records.batch import HEADER, BatchHeader, check_crc, read_header, set_crc
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
    read_records,
)

NOW_MS = 1_700_000_000_000
PLAIN = TopicConfig()
COMPACTED = TopicConfig(cleanup_policy=("compact", "delete"))
RECORDS = [Record(n, NOW_MS + n, b"key", b"value" * 50) for n in range(4)]


def accept(
    batch: bytearray, config: TopicConfig = PLAIN, *, from_client: bool = True
) -> tuple[memoryview, BatchHeader]:
    view = memoryview(batch)
    result, header = validate(view, read_header(view), config, NOW_MS, from_client=from_client)
    assert check_crc(result)
    assert header == read_header(result)
    return result, header


def refuse(
    batch: bytearray, config: TopicConfig = PLAIN, *, from_client: bool = True
) -> InvalidRecords:
    before = bytes(batch)
    view = memoryview(batch)
    with pytest.raises(InvalidRecords) as raised:
        validate(view, read_header(view), config, NOW_MS, from_client=from_client)
    assert bytes(batch) == before
    return raised.value


def changed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields, under a CRC that fits."""
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
    set_crc(batch)
    return batch


@pytest.mark.parametrize("codec", Codec)
def test_a_common_batch_is_passed_on_as_it_is(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    before = bytes(batch)
    result, _ = accept(batch)
    assert result.obj is batch
    assert bytes(batch) == before
    assert not must_recompress(read_header(batch), PLAIN)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"magic": 0}, ErrorCode.invalid_record),
        ({"magic": 1}, ErrorCode.invalid_record),
        ({"magic": 3}, ErrorCode.corrupt_message),
        ({"magic": -1}, ErrorCode.corrupt_message),
        ({"batch_length": 48}, ErrorCode.corrupt_message),
        ({"batch_length": 5000}, ErrorCode.invalid_record),
        ({"base_offset": 1}, ErrorCode.invalid_record),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.invalid_record),
        ({"record_count": 5}, ErrorCode.invalid_record),
        ({"last_offset_delta": 2}, ErrorCode.invalid_record),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, ErrorCode.invalid_record),
        ({"attributes": 5}, ErrorCode.unsupported_compression_type),
        ({"attributes": 0x20}, ErrorCode.invalid_record),
        ({"producer_id": 1}, ErrorCode.invalid_record),
        ({"attributes": 0x08, "max_timestamp": -1}, ErrorCode.invalid_timestamp),
    ],
)
def test_a_header_that_cannot_be_is_refused(fields: dict[str, int], code: ErrorCode) -> None:
    assert refuse(changed(build_batch(RECORDS), **fields)).code is code


def test_a_wrong_crc_is_a_corrupt_message() -> None:
    batch = build_batch(RECORDS)
    batch[-1] ^= 1
    assert refuse(batch).code is ErrorCode.corrupt_message


def test_a_compressed_batch_cannot_claim_more_records_than_could_be_in_it() -> None:
    batch = build_batch(RECORDS, codec=Codec.ZSTD)
    batch = changed(batch, record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    assert refuse(batch).code is ErrorCode.invalid_record


def test_one_whole_batch_is_accepted_and_a_cut_one_after_it_is_dropped() -> None:
    batch = build_batch(RECORDS)
    result, _ = accept(batch + batch[:-1])
    assert bytes(result) == bytes(batch)
    assert refuse(batch + batch).code is ErrorCode.invalid_record
    assert refuse(batch[:-1]).code is ErrorCode.invalid_record


def test_a_batch_may_reach_max_message_bytes_and_not_pass_it() -> None:
    batch = build_batch(RECORDS)
    accept(batch, replace(PLAIN, max_message_bytes=len(batch)))
    error = refuse(batch, replace(PLAIN, max_message_bytes=len(batch) - 1))
    assert error.code is ErrorCode.message_too_large


def test_a_batch_must_fit_a_segment() -> None:
    batch = build_batch(RECORDS)
    accept(batch, replace(PLAIN, segment_bytes=len(batch)))
    error = refuse(batch, replace(PLAIN, segment_bytes=len(batch) - 1))
    assert error.code is ErrorCode.record_list_too_large


def test_an_idempotent_batch_is_accepted_with_its_sequence() -> None:
    batch = build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0)
    assert accept(batch)[1].last_sequence == 3


@pytest.mark.parametrize("config", [PLAIN, COMPACTED, TopicConfig(compression_type="zstd")])
def test_only_coordinators_may_write_control_batches_which_stay_uncompressed(
    config: TopicConfig,
) -> None:
    batch = build_marker(EndTransactionMarker(ControlType.COMMIT, 1), NOW_MS, 7, 0)
    assert refuse(bytearray(batch), config).code is ErrorCode.invalid_record
    result, _ = accept(batch, config, from_client=False)
    assert result.obj is batch


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_is_set_where_the_batch_lies(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    result, header = accept(batch, TopicConfig(message_timestamp_type="LogAppendTime"))
    assert result.obj is batch
    assert header.log_append_time
    assert header.max_timestamp == NOW_MS
    assert {record.timestamp for record in read_records(result)} == {NOW_MS}


def test_a_producer_may_not_claim_log_append_time() -> None:
    config = TopicConfig(message_timestamp_type="LogAppendTime")
    error = refuse(build_batch(RECORDS, log_append_time=NOW_MS), config)
    assert error.code is ErrorCode.invalid_timestamp
    assert error.record_errors[0][0] == 0


def test_the_claim_of_log_append_time_is_withdrawn_where_create_time_counts() -> None:
    batch = build_batch(RECORDS, log_append_time=NOW_MS)
    result, header = accept(batch)
    assert not header.log_append_time
    assert read_records(result) == RECORDS


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "config",
    [
        TopicConfig(message_timestamp_before_max_ms=1000),
        TopicConfig(message_timestamp_after_max_ms=1000),
    ],
)
def test_records_too_far_from_now_are_named_one_by_one(config: TopicConfig, codec: Codec) -> None:
    limit = 1000 if config.message_timestamp_after_max_ms == 1000 else -1000
    times = [NOW_MS, NOW_MS + limit, NOW_MS + 2 * limit, -1, NOW_MS + 3 * limit]
    batch = build_batch([Record(n, t, None, None) for n, t in enumerate(times)], codec=codec)
    error = refuse(batch, config)
    assert error.code is ErrorCode.invalid_timestamp
    assert [index for index, _ in error.record_errors] == [2, 4]
    accept(batch, replace(config, message_timestamp_type="LogAppendTime"))


def test_a_compacted_topic_names_the_records_without_a_key() -> None:
    records = [Record(n, NOW_MS, b"k" if n % 2 else None, b"v") for n in range(5)]
    accept(build_batch(records))
    error = refuse(build_batch(records, codec=Codec.LZ4), COMPACTED)
    assert error.code is ErrorCode.invalid_record
    assert [index for index, _ in error.record_errors] == [0, 2, 4]
    assert "3 records are refused: record 0:" in str(error)
    accept(build_batch(RECORDS), COMPACTED)


def test_a_wrong_time_outweighs_a_missing_key_and_both_are_named() -> None:
    config = replace(COMPACTED, message_timestamp_after_max_ms=1000)
    records = [Record(0, NOW_MS, None, b""), Record(1, NOW_MS + 2000, b"k", b"")]
    error = refuse(build_batch(records), config)
    assert error.code is ErrorCode.invalid_timestamp
    assert [index for index, _ in error.record_errors] == [0, 1]


def test_malformed_records_under_a_right_crc_are_invalid_and_not_worth_a_retry() -> None:
    batch = build_batch(RECORDS)
    batch[61] ^= 2
    set_crc(batch)
    assert refuse(batch).code is ErrorCode.invalid_record
    batch = changed(build_batch(RECORDS), attributes=int(Codec.GZIP))
    assert refuse(batch).code is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", Codec)
def test_a_false_max_timestamp_is_put_right(codec: Codec) -> None:
    batch = changed(build_batch(RECORDS, codec=codec), max_timestamp=5)
    assert accept(batch)[1].max_timestamp == NOW_MS + 3


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_topic_may_store_with_a_codec_of_its_own(
    source: Codec, target: str, timestamp_type: str
) -> None:
    config = TopicConfig(
        compression_type=target,
        compression_gzip_level=9,
        compression_lz4_level=12,
        compression_zstd_level=10,
        message_timestamp_type=timestamp_type,
    )
    batch = build_batch(
        RECORDS, codec=source, transactional=True, producer_id=5, producer_epoch=6, base_sequence=7
    )
    before = read_header(batch)
    result, header = accept(batch, config)
    kept = source.name.lower() == target or (target == "uncompressed" and source == Codec.NONE)
    assert (result.obj is batch) is kept
    assert must_recompress(before, config) is not kept
    assert header.codec == (Codec.NONE if target == "uncompressed" else Codec[target.upper()])
    assert header[6:8] == before[6:8]
    assert header[9:] == before[9:]
    assert header.is_transactional
    append_time = timestamp_type == "LogAppendTime"
    assert header.log_append_time is append_time
    assert read_records(result) == [
        record._replace(timestamp=NOW_MS) if append_time else record for record in RECORDS
    ]


def test_the_size_counts_again_after_the_codec_changed() -> None:
    batch = build_batch([Record(0, NOW_MS, None, bytes(10_000))], codec=Codec.GZIP)
    config = TopicConfig(compression_type="uncompressed", max_message_bytes=5000)
    assert refuse(batch, config).code is ErrorCode.message_too_large


@given(
    st.sampled_from([PLAIN, COMPACTED, TopicConfig(compression_type="zstd")]),
    st.sampled_from(Codec),
    st.data(),
)
def test_a_damaged_batch_raises_a_broker_error_or_nothing(
    config: TopicConfig, codec: Codec, data: st.DataObject
) -> None:
    batch = build_batch(RECORDS, codec=codec)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(batch) - 1))
        batch[at] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        set_crc(batch)
    with suppress(BrokerError):
        validate(memoryview(batch), read_header(batch), config, NOW_MS)
