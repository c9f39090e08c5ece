"""The leader's validation of a produced batch, and the changes it makes before the append.

Nothing is appended that a consumer could not read: every record of every batch is walked over. The
common batch never comes here: `judge_plain` has walked over its records. See `must_recompress` and
`RecordsTooLarge` for what is better done off the loop.
"""

from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.config.topic_config import TopicConfig
from barnabas.wire.produce.plain_batch import SMALLEST_RECORD
from barnabas.wire.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    read_header,
    set_crc,
    set_create_time,
    set_log_append_time,
)
from barnabas.wire.records.compression import (
    MAX_DECOMPRESSED_SIZE,
    Codec,
    RecordsTooLarge,
    compress,
    decompress_produced,
    parse_compression_type,
)
from barnabas.wire.records.record_walk import FAULTS, MOST_REFUSED, walk_records

NO_LIMIT: Final = 2**63 - 1
_MIN_LONG: Final = -(2**63)
_RECORDS_SHOWN: Final = 3


class InvalidRecords(BrokerError):
    """A batch is refused, the log unchanged; `record_errors` names records by their index."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def validate(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    now_ms: int,
    *,
    from_client: bool = True,
    max_decompressed: int = MAX_DECOMPRESSED_SIZE,
) -> tuple[memoryview, BatchHeader]:
    """The batch that may be appended for `batch`, and its header.

    `batch` is all that a producer sent for a partition, `header` what read_header finds in it.
    The result is the same memory, changed in place where the topic sets the time, or new memory
    if the topic wants another codec. Coordinators (not `from_client`) may write control batches.
    A maximum timestamp that is not the records' is corrected, as Kafka does. Offsets, sequences and
    epochs against the log's state are not judged here. Does not suspend.

    Raises  RecordsTooLarge, batch unchanged, beyond `max_decompressed` bytes of records
            InvalidRecords, batch unchanged:
              invalid_record      not one batch of magic 2, or its header contradicts itself, or
                                  it does not decompress, or a record is malformed, has an offset
                                  delta out of order, or lacks the key that a compacted topic needs
              corrupt_message     a length or CRC is wrong
              message_too_large   beyond max.message.bytes
              record_list_too_large   beyond segment.bytes
              invalid_timestamp   of a type or at a distance that the topic refuses
              unsupported_compression_type   no such codec
    """
    size = header.batch_length + LOG_OVERHEAD
    if header.magic != MAGIC or size != len(batch):
        batch = _only_batch(batch, header)
    if from_client and header.base_offset != 0:
        raise InvalidRecords(
            ErrorCode.invalid_record, f"the base offset must be 0, it is {header.base_offset}"
        )
    _check_size(size, config)
    if not check_crc(batch):
        raise InvalidRecords(ErrorCode.corrupt_message, f"the CRC is not {header.crc:#010x}")
    if from_client:
        _check_client_header(header)
    if header.log_append_time:
        _check_timestamp_type(header, config)
    records = _decompressed(batch, header, max_decompressed)
    max_timestamp = _check_records(records, header, config, now_ms)
    if must_recompress(header, config):
        batch = _recompress(records, header, config)
        header = read_header(batch)
    if config.message_timestamp_type == "LogAppendTime":
        set_log_append_time(batch, now_ms)
    elif header.log_append_time or header.max_timestamp != max_timestamp:
        set_create_time(batch, max_timestamp)
    else:
        return batch, header
    return batch, read_header(batch)


def must_recompress(header: BatchHeader, config: TopicConfig) -> bool:
    """True if the topic wants another codec than the batch has: `validate` is slow then."""
    return config.compression_type != "producer" and _target_codec(header, config) != header.codec


def _only_batch(batch: memoryview, header: BatchHeader) -> memoryview:
    """The one whole batch at the start of what was sent; a cut batch after it is dropped."""
    if not 0 <= header.magic <= MAGIC or header.size < HEADER_SIZE:
        raise InvalidRecords(
            ErrorCode.corrupt_message,
            f"a batch cannot have magic {header.magic} and {header.size} bytes",
        )
    if header.magic != MAGIC:
        raise InvalidRecords(
            ErrorCode.invalid_record, f"only batches of magic {MAGIC} are accepted"
        )
    rest = len(batch) - header.size
    if rest < 0:
        raise InvalidRecords(
            ErrorCode.invalid_record,
            f"one whole batch is needed, {-rest} of its {header.size} bytes are missing",
        )
    if rest >= HEADER_SIZE and read_header(batch, header.size).size <= rest:
        raise InvalidRecords(
            ErrorCode.invalid_record, "exactly one batch per partition is accepted"
        )
    return batch[: header.size]


def _check_size(size: int, config: TopicConfig) -> None:
    if size > config.max_message_bytes:
        raise InvalidRecords(
            ErrorCode.message_too_large,
            f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise InvalidRecords(
            ErrorCode.record_list_too_large,
            f"the batch has {size} bytes, segment.bytes is {config.segment_bytes}",
        )


def _check_client_header(header: BatchHeader) -> None:
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise InvalidRecords(
            ErrorCode.invalid_record,
            f"{count} records contradict a last offset delta of {header.last_offset_delta}",
        )
    codec = header.codec
    if codec > Codec.ZSTD:
        raise InvalidRecords(
            ErrorCode.unsupported_compression_type, f"there is no compression codec {codec}"
        )
    # Otherwise a few bytes could use up a partition's offsets.
    room = header.batch_length if codec == Codec.NONE else MAX_DECOMPRESSED_SIZE
    if count * SMALLEST_RECORD > room:
        raise InvalidRecords(ErrorCode.invalid_record, f"there is no room for {count} records")
    if header.is_control:
        raise InvalidRecords(ErrorCode.invalid_record, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecords(
            ErrorCode.invalid_record,
            f"producer {header.producer_id} sent the sequence number {header.base_sequence}",
        )


def _check_timestamp_type(header: BatchHeader, config: TopicConfig) -> None:
    """Kafka lets a producer claim log-append time only where the claim is then withdrawn."""
    if config.message_timestamp_type == "LogAppendTime" or header.max_timestamp == NO_TIMESTAMP:
        what = "a producer may not set the timestamp type to LogAppendTime"
        raise InvalidRecords(ErrorCode.invalid_timestamp, what, ((0, what),))


def _decompressed(batch: memoryview, header: BatchHeader, max_size: int) -> memoryview:
    records = batch[HEADER_SIZE:]
    if header.codec == Codec.NONE:
        return records
    try:
        return decompress_produced(header.codec, records, max_size)
    except RecordsTooLarge:
        raise
    except BrokerError as error:
        # The CRC was right, so the producer built it so: sending it again cannot help.
        raise InvalidRecords(ErrorCode.invalid_record, str(error)) from None


def _check_records(
    records: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int
) -> int:
    """Walk over the records, and return their greatest timestamp."""
    earliest, latest = _MIN_LONG, NO_LIMIT
    if config.message_timestamp_type == "CreateTime":
        earliest = max(earliest, now_ms - config.message_timestamp_before_max_ms)
        latest = min(latest, now_ms + config.message_timestamp_after_max_ms)
    refused: list[tuple[int, bool, int]] = []
    fault, index, max_timestamp = walk_records(
        records,
        0,
        len(records),
        header.record_count,
        header.last_offset_delta,
        header.base_timestamp,
        config.compacts,
        earliest,
        latest,
        refused,
    )
    if fault:
        what = FAULTS[fault]
        raise InvalidRecords(ErrorCode.invalid_record, f"record {index}: {what}", ((index, what),))
    if refused:
        raise _refusal(refused, earliest, latest)
    return max_timestamp


def _refusal(refused: list[tuple[int, bool, int]], earliest: int, latest: int) -> InvalidRecords:
    keyless = "a compacted topic accepts no record without a key"
    errors = tuple(
        (index, keyless if no_key else f"timestamp {timestamp} not in {earliest}..{latest}")
        for index, no_key, timestamp in refused
    )
    all_keyless = all(no_key for _, no_key, _ in refused)
    code = ErrorCode.invalid_record if all_keyless else ErrorCode.invalid_timestamp
    shown = "; ".join(f"record {index}: {what}" for index, what in errors[:_RECORDS_SHOWN])
    count = f"{len(errors)}{' or more' if len(errors) == MOST_REFUSED else ''}"
    return InvalidRecords(code, f"{count} records are refused: {shown}", errors)


def _target_codec(header: BatchHeader, config: TopicConfig) -> int:
    """The codec to store with: the topic's, the producer's, or none for bare control batches."""
    codec = parse_compression_type(config.compression_type)
    if codec is None or (header.is_control and header.codec == Codec.NONE):
        return header.codec
    return codec


def _recompress(records: memoryview, header: BatchHeader, config: TopicConfig) -> memoryview:
    """The batch in the topic's codec; the records stay as they are."""
    codec = Codec(_target_codec(header, config))
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    batch = bytearray(HEADER_SIZE)
    batch += compress(codec, bytes(records), levels.get(codec))
    _check_size(len(batch), config)
    attributes = header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME | DELETE_HORIZON) | codec
    length = len(batch) - LOG_OVERHEAD
    HEADER.pack_into(batch, 0, *header._replace(attributes=attributes, batch_length=length))
    set_crc(batch)
    return memoryview(batch)
