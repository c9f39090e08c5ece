"""The append of a produced batch to one partition: checks, the log, and what to wait for."""

import asyncio
from typing import Final, NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.offload import Offload
from barnabas.log.validation import InvalidRecords, validate
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.metadata_cache import is_internal
from barnabas.server.delayed.delayed_produce import ALL, Awaited
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.transactions.transactional_produce import Guards
from barnabas.wire.produce.produce_codec import PartitionBatches, PartitionProduced, refusal
from barnabas.wire.records.batch import HEADER_SIZE, BatchHeader, read_header
from barnabas.wire.records.compression import SMALL_RECORDS, Codec, RecordsTooLarge

ZSTD_SINCE: Final = 7
LARGE_AT_ONCE: Final = 2

Validated = tuple[memoryview, BatchHeader]


class Done(NamedTuple):
    """The response for one partition, and the high watermark it has to wait for, if any."""

    produced: PartitionProduced
    awaited: Awaited | None = None


class PartitionAppend:
    """Appends as leader; checks the operations in `delayed` for every partition that grew."""

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        offload: Offload,
        delayed: Delayed,
        failures: FailureChannel,
        max_decompressed: int,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._offload = offload
        self._delayed = delayed
        self._failures = failures
        self._max_decompressed = max_decompressed
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    def append(
        self,
        version: int,
        acks: int,
        batches: PartitionBatches,
        guards: Guards,
        validated: Validated | None = None,
    ) -> Done:
        """Append a partition's batch.

        Raises  RecordsTooLarge, nothing appended, for records that a thread should look at
        """
        topic, partition, records = batches
        leader = self._replicas.find(topic, partition)
        if leader is None:
            return Done(refusal(partition, self._replicas.why_not(topic, partition)))
        guard = guards.get((topic, partition)) if guards else None
        try:
            if validated is not None:
                if acks == ALL:
                    leader.check_in_sync()  # it may have changed while a thread looked at the batch
                records, header = validated
                appended = leader.append(records, self._clock.now_ms(), header, guard=guard)
            else:
                whole = _checked(version, acks, records, leader)
                now_ms = self._clock.now_ms()
                appended = leader.append(whole, now_ms, max_decompressed=SMALL_RECORDS, guard=guard)
        except RecordsTooLarge:
            raise
        except (BrokerError, DiskFault) as e:
            return Done(self.refused(partition, e))
        self._delayed.on_append(leader)
        waits = acks == ALL and appended.end > leader.high_watermark
        answer = PartitionProduced(
            partition,
            0,
            appended.base_offset,
            appended.log_append_time_ms,
            leader.log.log_start_offset,
        )
        return Done(answer, Awaited(leader, appended.end) if waits else None)

    async def append_in_thread(
        self, version: int, acks: int, batches: PartitionBatches, guards: Guards
    ) -> Done:
        topic, partition, records = batches
        leader = self._replicas.find(topic, partition)
        if leader is None:
            return Done(refusal(partition, self._replicas.why_not(topic, partition)))
        try:
            whole = _checked(version, acks, records, leader)
            header = read_header(whole)
            config, now_ms = leader.log.config, self._clock.now_ms()
            most = max(self._max_decompressed, config.max_message_bytes)
            async with self._large:
                validated = await self._offload(
                    lambda: validate(whole, header, config, now_ms, max_decompressed=most)
                )
        except BrokerError as e:
            return Done(self.refused(partition, e))
        done = self.append(version, acks, batches, guards, validated)
        if not done.produced.code and leader.log.is_flush_due(now_ms):
            flush = leader.log.start_flush()
            try:
                await self._offload(flush.run)
            except DiskFault as fault:
                return Done(self.refused(partition, fault))
            leader.log.on_flushed(flush, self._clock.now_ms())
        return done

    def refused(self, partition: int, error: BrokerError | DiskFault) -> PartitionProduced:
        if isinstance(error, DiskFault):
            self._failures.disk_failed(error)
            return refusal(partition, ErrorCode.kafka_storage_error)
        record_errors = error.record_errors if isinstance(error, InvalidRecords) else ()
        return PartitionProduced(
            partition, int(error.code), record_errors=record_errors, message=error.message
        )


def _checked(
    version: int, acks: int, records: memoryview | None, leader: LeaderReplica
) -> memoryview:
    """The records, if there is nothing to refuse before looking into them."""
    if not -1 <= acks <= 1:
        raise BrokerError(ErrorCode.invalid_required_acks)
    if is_internal(leader.topic_partition.topic):
        raise BrokerError(
            ErrorCode.invalid_topic_exception, "Only the broker itself writes to internal topics."
        )
    if acks == ALL:
        leader.check_in_sync()
    if records is None or len(records) < HEADER_SIZE:
        raise BrokerError(ErrorCode.invalid_record, "The records hold no whole batch.")
    if version < ZSTD_SINCE and records[22] & 0x07 == Codec.ZSTD:
        raise BrokerError(
            ErrorCode.unsupported_compression_type, "zstd needs Produce version 7 or newer."
        )
    return records
