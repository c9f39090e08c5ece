"""Reads a partition of `__consumer_offsets` from its beginning, for the shard that rests on it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import Offset
from barnabas.base.offload import Offload
from barnabas.coordinator.result import CoordinatorRecord, MalformedRecord
from barnabas.groups.shard import GroupCoordinatorShard
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.wire.records.batch import BatchHeader, headers
from barnabas.wire.records.records import ControlType, read_marker, read_records

log = logging.getLogger("barnabas.groups")

# So many records are replayed before others get their turn.
AT_ONCE: Final = 500


async def load(
    leader: LeaderReplica,
    shard: GroupCoordinatorShard,
    is_wanted: Callable[[], bool],
    offload: Offload,
    buffer_size: int,
) -> int:
    """Replay all that the log holds, also what is written meanwhile; says how many records.

    Stops early when it is no longer wanted.

    Raises  BrokerError, DiskFault
    """
    written, offset, count = leader.log, leader.log.log_start_offset, 0
    while is_wanted() and offset < written.log_end_offset:
        extent = written.locate(offset, buffer_size, written.log_end_offset, minimum_one=True)
        data = await offload(extent.load)
        if not is_wanted():
            break
        if not data:
            raise BrokerError(
                ErrorCode.kafka_storage_error, f"{written.partition} ends at {offset}"
            )
        for position, header in headers(data):
            count += await _replay(data[position : position + header.size], header, shard)
            offset = Offset(header.next_offset)
        await asyncio.sleep(0)
    return count


async def _replay(batch: bytes, header: BatchHeader, shard: GroupCoordinatorShard) -> int:
    if header.is_control:
        if (marker := read_marker(batch)) is not None:
            shard.replay_end_of_transaction(
                header.producer_id, marker.control_type is ControlType.COMMIT
            )
        return 0
    producer_id = header.producer_id if header.is_transactional else None
    records = read_records(batch)
    for at, record in enumerate(records, 1):
        if record.key is not None:
            try:
                shard.replay(CoordinatorRecord(record.key, record.value), producer_id)
            except MalformedRecord as e:
                log.warning("record of groups passed over offset=%d why=%s", record.offset, e)
        if at % AT_ONCE == 0:
            await asyncio.sleep(0)
    return len(records)
