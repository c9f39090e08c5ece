"""The judgement of stored batches: those that no leader of this version would have accepted.

Earlier brokers, and Kafka's, accept some of them. They are reported, never removed.
"""

from barnabas.base.errors import BrokerError
from barnabas.wire.records.batch import HEADER_SIZE, BatchHeader
from barnabas.wire.records.compression import MAX_DECOMPRESSED_SIZE, Codec, decompress_produced
from barnabas.wire.records.record_walk import FAULTS, walk_records


def why_unreadable(batch: memoryview, header: BatchHeader) -> str | None:
    """Why consumers cannot read the records of one whole batch; None if they can.

    Records of a compacted batch may have gaps between their offsets.
    """
    return judge_stored(batch, header)[0]


def judge_stored(batch: memoryview, header: BatchHeader) -> tuple[str | None, int]:
    """As `why_unreadable`, with the greatest timestamp of the records."""
    records = batch[HEADER_SIZE : header.size]
    try:
        if header.codec != Codec.NONE:
            records = decompress_produced(header.codec, records, MAX_DECOMPRESSED_SIZE)
    except BrokerError as error:
        return str(error), -1
    fault, index, max_timestamp = walk_records(
        records,
        0,
        len(records),
        header.record_count,
        header.last_offset_delta,
        header.base_timestamp,
    )
    return (f"record {index}: {FAULTS[fault]}" if fault else None), max_timestamp
