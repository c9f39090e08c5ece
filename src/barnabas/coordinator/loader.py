"""The loader: replays a partition of the internal topic, from its beginning, into a shard."""

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import Offset
from barnabas.base.offload import Offload
from barnabas.coordinator.coordinator_shard import CoordinatorShard
from barnabas.coordinator.coordinator_topic import CoordinatorTopic
from barnabas.coordinator.result import CoordinatorRecord, MalformedRecord
from barnabas.log.log import Log
from barnabas.wire.records.batch import BatchHeader, headers
from barnabas.wire.records.records import ControlType, read_marker, read_records

# The loop gets a turn after so many records, or batches without any.
AT_ONCE: Final = 500


async def load(
    log: Log,
    shard: CoordinatorShard,
    topic: CoordinatorTopic,
    is_wanted: Callable[[], bool],
    offload: Offload,
) -> int:
    """Replay the log up to its end, also what is appended meanwhile. Returns the record count.

    A record that cannot be read is logged and skipped. Stops early when it is no longer wanted.

    Raises  BrokerError, DiskFault
    """
    offset, count, since_turn = log.log_start_offset, 0, 0
    while is_wanted() and offset < log.log_end_offset:
        size = topic.load_buffer_size
        file_slice = log.locate(offset, size, log.log_end_offset, minimum_one=True)
        data = await offload(file_slice.load)
        if not is_wanted():
            break
        if not data:
            raise BrokerError(ErrorCode.kafka_storage_error, f"{log.partition} ends at {offset}")
        for position, header in headers(data):
            batch = data[position : position + header.size]
            replayed = await _replay(batch, header, shard, topic)
            count += replayed
            offset = Offset(header.next_offset)
            # Transactions write batches of one record, or of a marker.
            since_turn += max(replayed, 1)
            if since_turn >= AT_ONCE:
                since_turn = 0
                await asyncio.sleep(0)
                if not is_wanted():
                    return count
        await asyncio.sleep(0)
    return count


async def _replay(
    batch: bytes, header: BatchHeader, shard: CoordinatorShard, topic: CoordinatorTopic
) -> int:
    if header.is_control:
        if (marker := read_marker(batch)) is not None:
            is_committed = marker.control_type is ControlType.COMMIT
            shard.replay_end_of_transaction(header.producer_id, is_committed)
        return 0
    producer_id = header.producer_id if header.is_transactional else None
    records = read_records(batch)
    for at, record in enumerate(records, 1):
        if record.key is not None:
            try:
                shard.replay(CoordinatorRecord(record.key, record.value), producer_id)
            except MalformedRecord as e:
                topic.logger.warning(
                    "record of %ss passed over offset=%d why=%s", topic.noun, record.offset, e
                )
        if at % AT_ONCE == 0:
            await asyncio.sleep(0)
    return len(records)
