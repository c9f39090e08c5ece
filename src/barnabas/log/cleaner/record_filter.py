"""The records of a batch that compaction keeps, and the batch rebuilt from them."""

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.disk.disk import Buffer
from barnabas.log.cleaner.cleaned_transactions import CleanedTransactions
from barnabas.log.cleaner.offset_map import OffsetMap
from barnabas.log.producers.producer_state import LastRecord
from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.record_slices import RecordSlice, empty, rebuild, slice_records


@dataclass(slots=True)
class FilterStatistics:
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


class RecordFilter:
    """Decides batch by batch, in the order of the log, in one pass of compaction.

    A record stays if its key has none at a later offset below `end_offset`. A tombstone stays on
    until its batch's delete horizon, which the first pass sets to `now_ms` plus
    `delete.retention.ms`. A record without a key does not stay.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        end_offset: int,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`offset_map` knows every key of the part to be cleaned, which ends at `end_offset`."""
        self._map = offset_map
        self._end_offset = end_offset
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._delete_horizon = now_ms + delete_retention_ms
        self.statistics = FilterStatistics()

    def apply(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """The batch that stays, which is `batch` itself if all of it does; None if nothing does.

        Raises  BrokerError(corrupt_message, unsupported_compression_type)
        """
        can_discard = self._transactions.can_discard(header, batch.tobytes)
        self.statistics.records_read += header.record_count
        left = self._filter(header, batch, can_discard)
        if left is None and self._is_last_of_producer(header):
            return empty(header)
        return left

    def _filter(self, header: BatchHeader, batch: memoryview, can_discard: bool) -> Buffer | None:
        if can_discard and not (header.is_control and self._must_wait(header)):
            return None
        if header.base_offset >= self._end_offset:
            self.statistics.records_kept += header.record_count
            return batch
        data, records = slice_records(batch, header)
        kept = records if header.is_control else self._kept(header, records)
        self.statistics.records_kept += len(kept)
        if not kept:
            return None
        expires = (header.is_control and can_discard) or any(record.is_tombstone for record in kept)
        if expires and not header.has_delete_horizon:
            return rebuild(header, data, kept, self._delete_horizon)
        return batch if len(kept) == len(records) else rebuild(header, data, kept)

    def _kept(self, header: BatchHeader, records: list[RecordSlice]) -> list[RecordSlice]:
        latest, end_offset = self._map.get, self._end_offset
        keeps_tombstones = self._must_wait(header)
        kept = []
        for record in records:
            _, _, _, _, offset, key, is_tombstone = record
            if offset >= end_offset:
                kept.append(record)
            elif key is None:
                self.statistics.records_without_key += 1
            elif offset >= latest(key) and (keeps_tombstones or not is_tombstone):
                kept.append(record)
        return kept

    def _must_wait(self, header: BatchHeader) -> bool:
        """True if the batch's delete horizon is still to come, so its tombstones must stay."""
        return not header.has_delete_horizon or self._now_ms < header.base_timestamp

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """True if it has its producer's last sequence; if none is left, a marker of its epoch."""
        if header.producer_id < 0 or header.producer_id not in self._last_records:
            return False
        last_offset, epoch = self._last_records[header.producer_id]
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch
