"""The log of one partition: consecutive segments, of which the last one is appended to.

A log belongs to the event loop, and no method suspends. Methods return blocking work for a
thread: `Flush` and `Removal` touch only files, never the log.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset, TopicPartition
from barnabas.base.laws import law
from barnabas.base.randomness import Random
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Buffer, Disk
from barnabas.log.background_work import Flush, Removal
from barnabas.log.checkpoints import encode_epoch_checkpoint
from barnabas.log.cleaner.cleaner import Cleaning
from barnabas.log.cleaner.swap import Swap
from barnabas.log.flushes import EPOCH_CHECKPOINT, Flushes
from barnabas.log.follower_batches import check_order
from barnabas.log.leader_epochs import LeaderEpochs
from barnabas.log.log_reader import LogReader
from barnabas.log.producers.producer_snapshots import ProducerSnapshots, replay, replay_marker
from barnabas.log.producers.producer_state import CompletedTransaction, ProducerStates
from barnabas.log.retention import decide_deletable
from barnabas.log.segment.active_segment import MAX_RELATIVE
from barnabas.log.segment.segment import LOG, Segment
from barnabas.log.segment.segments import new_segment
from barnabas.wire.produce.plain_batch import as_plain
from barnabas.wire.records.batch import BatchHeader, headers
from barnabas.wire.records.records import EndTransactionMarker


class Appended(NamedTuple):
    """The offsets that batches got: from `base_offset` up to `end`, exclusive."""

    base_offset: Offset
    end: Offset  # committed once the high watermark is here
    log_append_time_ms: int = -1  # -1 where the producer's own time counts


class Log(LogReader):
    """The records of one partition, from `log_start_offset` up to `log_end_offset` (exclusive).

    A DiskFault in a write sets `failure`: from then on the log refuses writes, and the next
    start recovers the files. Reads go on.
    """

    def __init__(
        self,
        disk: Disk,
        partition: TopicPartition,
        config: TopicConfig,
        segments: Sequence[Segment],
        *,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        log_start_offset: int,
        recovery_point: int,
        random: Random,
        now_ms: int,
        topic_id: UUID | None = None,
        first_dirty_offset: int | None = None,
        settle: Callable[["Log"], None] = lambda log: log.on_settled(log.cuts),
        announce: Callable[["Log"], None] = lambda _: None,
        directory: str = "",
    ) -> None:
        """`segments` are in order, at least one; the last one knows its end.

        `settle` fsyncs a truncation before the next append, and then calls `on_settled`. It
        blocks; the log does not call it if a thread has done this in time. `announce` makes sure
        that a recovery point of this log is on disk, even if it is 0; the log calls it before a
        log that may be compacted gets a second segment.
        """
        super().__init__(
            disk, directory or str(partition), config, segments, epochs, log_start_offset
        )
        self.partition = partition
        self.topic_id = topic_id
        self.producers = producers
        self.recovery_point = Offset(recovery_point)
        self.last_flush_ms = now_ms
        # The end of the compacted part, if any; the cleaner checks whether it is plausible.
        self.first_dirty_offset = first_dirty_offset
        # The compaction under way, if any: it is void once this is another one or None.
        self.cleaning: Cleaning | None = None
        self.cuts: int = 0  # the number of truncations
        # Either one sets `is_unsettled`: it must be settled before the next append.
        self._is_cut_unsettled = False
        self._is_epoch_unwritten = False
        self._settle = settle
        self._announce = announce
        self._snapshots = ProducerSnapshots(disk, self.directory, producers)
        self._swap: Swap | None = None
        self._random = random
        is_directory_dirty = any(segment.is_dirty for segment in segments)
        self._flushes = Flushes(disk, self.directory, is_directory_dirty=is_directory_dirty)

    # Writing

    def append(
        self, batch: memoryview, header: BatchHeader, epoch: LeaderEpoch, now_ms: int
    ) -> Appended:
        """Append one batch that was validated, whether or not it is plain.

        On return followers may fetch the batch, but consumers may not until the high watermark
        reaches `Appended.end`. The rest is as `append_batches` has it.

        Keeps   LOG-1, LOG-2
        """
        base_offset = self.append_batches([as_plain(batch, header)], epoch, now_ms)
        if header.producer_id >= 0:
            replay(self.producers, header, base_offset, lambda: bytes(batch), self._completed)
        return Appended(base_offset, self.log_end_offset)

    def append_marker(
        self,
        batch: memoryview,
        header: BatchHeader,
        marker: EndTransactionMarker,
        epoch: LeaderEpoch,
        now_ms: int,
    ) -> Appended:
        """Append the batch of an end marker that was checked, as `append` does."""
        base_offset = self.append_batches([as_plain(batch, header)], epoch, now_ms)
        replay_marker(self.producers, header, base_offset, marker, self._completed)
        return Appended(base_offset, self.log_end_offset)

    def append_as_follower(self, batches: Buffer, now_ms: int) -> Appended:
        """Put batches that a leader gave offsets and epochs at the end, as they are.

        Offsets may have gaps where the leader has compacted. A cut last batch is left out.

        Keeps   LOG-2
        Raises  BrokerError(corrupt_message), log unchanged, if offsets or epochs do not rise;
                it is an UnexpectedOffset, with the first batch, if they begin before the log's end
                DiskFault, nothing appended, and `failure` is set
        """
        found = list(headers(batches))
        if not found:
            return Appended(self.log_end_offset, self.log_end_offset)
        check_order(found, self.directory, self.log_end_offset, self._epoch)
        if self.is_unsettled:
            self._settle_now()
        position, last = found[-1]
        data = memoryview(batches)[: position + last.size]
        with self._writing():
            latest = max(header.max_timestamp for _, header in found)
            if self._active.should_roll(len(data), last.last_offset, latest, now_ms, self.config):
                # Leave no gap before it if it can reach: recovery treats a gap as a loss.
                is_near = last.last_offset - self.log_end_offset <= MAX_RELATIVE
                self._roll_at(self.log_end_offset if is_near else found[0][1].base_offset, now_ms)
            self._active.append(data, [header for _, header in found])
            for _, header in found:
                if header.leader_epoch != self._epoch:
                    self._begin_epoch(LeaderEpoch(header.leader_epoch), header.base_offset)
        self.log_end_offset = Offset(last.next_offset)
        for position, header in found:
            whole = data[position : position + header.size]
            replay(self.producers, header, header.base_offset, whole.tobytes, self._completed)
        return Appended(Offset(found[0][1].base_offset), self.log_end_offset)

    def _completed(self, transaction: CompletedTransaction) -> None:
        if not transaction.aborted:
            return
        with self._writing():
            self._segments.note_aborted(transaction)
        self.aborted_upto = Offset(transaction.last_offset)
        self._flushes.is_directory_dirty = True

    def begin_leading(self, epoch: LeaderEpoch) -> None:
        """Begin a leader's epoch at the end of the log; appends in older epochs are fenced.

        The epoch is written down with its first record: opening a log drops one without records.
        """
        if epoch > self.epochs.latest and self.epochs.assign(epoch, self.log_end_offset):
            self._epoch = epoch
            self._is_epoch_unwritten = self.is_unsettled = True

    def _begin_epoch(self, epoch: LeaderEpoch, start_offset: int) -> None:
        facts = {"log": self.directory, "new": epoch, "old": self._epoch}
        law(epoch > self._epoch, "LOG-2 epochs along the log never decrease", **facts)
        if self.epochs.assign(epoch, Offset(start_offset)):
            self.write_epochs()
        self._epoch = epoch

    def write_epochs(self) -> None:
        self._epoch = self.epochs.latest
        self._is_epoch_unwritten = False
        self.is_unsettled = self._is_cut_unsettled
        # No fsync: until the next flush the batches hold the same epochs.
        path = f"{self.directory}/{EPOCH_CHECKPOINT}"
        self.disk.replace(path, encode_epoch_checkpoint(self.epochs.entries), sync=False)
        self._flushes.is_directory_dirty = True

    def roll(self, now_ms: int) -> bool:
        """Begin a new active segment, unless the present one is empty."""
        return self._roll_at(self.log_end_offset, now_ms)

    def _roll_at(self, base_offset: int, now_ms: int) -> bool:
        if not self._active.size and base_offset <= self._active.base_offset:
            return False
        if self.config.compacts and not self.recovery_point:
            self._announce(self)
        self._active.rest()
        self._snapshots.take(base_offset)
        self._start_segment(base_offset, now_ms)
        return True

    def _start_segment(self, base_offset: int, now_ms: int) -> None:
        self._active = new_segment(
            self.disk, self.directory, base_offset, self.config, self._random, now_ms
        )
        self._segments.add(self._active)
        self._flushes.is_directory_dirty = True

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """For all but the hot path: refuse if the log has failed, and note if it fails now."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except DiskFault as fault:
            self.failure = fault
            raise

    # Removing

    def truncate_to(self, offset: Offset, now_ms: int) -> Removal | None:
        """Remove the batch that holds `offset` and all after it: the leader's log differs.

        Until the log is settled, checkpoints may still refer to removed records: see `settle`.

        Raises  DiskFault, and `failure` is set
        """
        if offset >= self.log_end_offset:
            # A leader that wrote nothing in its epoch has an entry here nevertheless.
            with self._writing():
                self._forget_epochs_from(self.log_end_offset)
            return None
        if offset < self._segments.first.base_offset:
            return self.truncate_fully_and_start_at(offset, now_ms)
        with self._writing():
            self._end_cleaning()
            removal = self._detach(slice(self._segments.number_of(offset) + 1, None))
            self._active = self._segments.active
            self._active.truncate_to(offset, now_ms)
            # In a log that was never compacted a gap before `offset` is a loss: fetch it again.
            # In others gaps may lie beyond `first_dirty_offset`, too: an interrupted pass swaps
            # segments in before it writes that offset, and a follower copies its leader's gaps.
            if not self.config.compacts and self.first_dirty_offset is None:
                self._active.find_end_offset()
            self._after_truncation(now_ms)
        return removal

    def truncate_fully_and_start_at(self, offset: Offset, now_ms: int) -> Removal:
        """Remove everything; the next record gets `offset`.

        Raises  DiskFault, and `failure` is set
        """
        with self._writing():
            self._end_cleaning()
            removal = self._detach(slice(None))
            self._snapshots.remove_all()
            self._start_segment(offset, now_ms)
            self.log_start_offset = offset
            self._forget_epochs_from(Offset(0))
            self._after_truncation(now_ms)
        return removal

    def _after_truncation(self, now_ms: int) -> None:
        self.log_end_offset = Offset(self._active.end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, self.log_end_offset)
        self._flushes.void()
        self.cuts += 1
        self._is_cut_unsettled = self.is_unsettled = True
        for segment in self._segments:
            segment.is_dirty = segment.is_index_dirty = True
        self._forget_epochs_from(self.log_end_offset)
        self.restore_producers(now_ms)

    def _forget_epochs_from(self, offset: Offset) -> None:
        if self.epochs.truncate_from_end(offset):
            self.write_epochs()

    @property
    def unsettled_paths(self) -> list[str]:
        """The files to fsync, so that a power failure cannot restore truncated records."""
        return [self._active.path(LOG), f"{self.directory}/{EPOCH_CHECKPOINT}", self.directory]

    def on_settled(self, cut: int) -> None:
        """Note that files and checkpoints on disk are as after the truncation `cut`."""
        if cut == self.cuts:
            self._is_cut_unsettled = False
            self.is_unsettled = self._is_epoch_unwritten

    def _settle_now(self) -> None:
        """Write an epoch that begins, and fsync a truncation."""
        with self._writing():
            if self._is_epoch_unwritten:
                self.write_epochs()
            if self._is_cut_unsettled:
                self._settle(self)
        facts = {"log": self.directory, "cuts": self.cuts}
        is_settled = not self._is_cut_unsettled
        law(is_settled, "LOG-6 a truncation is settled before an append", **facts)
        self.is_unsettled = False

    def restore_producers(self, now_ms: int, snapshots: Sequence[int] | None = None) -> None:
        """Rebuild the state of the producers from batches and the snapshots at these offsets."""
        self._snapshots.restore(self._segments, self.log_end_offset, now_ms, snapshots)
        self.aborted_upto = Offset(self._segments.aborted_upto)

    def delete_records_before(self, offset: Offset) -> None:
        """Move the log start to `offset`, at most the high watermark; retention frees the space.

        Raises  BrokerError(offset_out_of_range), log unchanged, beyond the log's end
        """
        if offset > self.log_end_offset:
            raise BrokerError(ErrorCode.offset_out_of_range)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                with self._writing():
                    self.write_epochs()

    def deletable_segments(self, now_ms: int, high_watermark: Offset) -> list[Segment]:
        """The oldest segments that may be deleted; the active one only if all its records may."""
        start = self.log_start_offset
        return decide_deletable(self.segments, self.config, start, high_watermark, now_ms)

    def delete_segments(self, deletable: Sequence[Segment], now_ms: int) -> Removal | None:
        """Delete the oldest segments, as decided; roll a new one first if none would be left.

        Their files get the suffix `.deleted` now; the returned work removes them.
        """
        if not deletable:
            return None
        if deletable[-1] is self._active:
            with self._writing():
                self.roll(now_ms)
        oldest = slice(len(deletable))
        law(
            tuple(deletable) == self.segments[oldest] != self.segments,
            "LOG-3 only the oldest segments are deleted, never the active one",
            log=self.directory,
            deletable=[segment.base_offset for segment in deletable],
        )
        with self._writing():
            self._end_cleaning()
            removal = self._detach(oldest)
        self.delete_records_before(Offset(self._segments.first.base_offset))
        return removal

    def _detach(self, which: slice) -> Removal:
        self._flushes.is_directory_dirty = True
        paths, delay_ms = self._segments.detach(which), self.config.file_delete_delay_ms
        return Removal(self.disk, paths, delay_ms, self.partition)

    def rename(self, directory: str) -> None:
        """Rename the directory of the log, which stays open. Raises DiskFault."""
        with self._writing():
            self.disk.rename(self.directory, directory)
        self.directory = directory
        self._flushes.on_renamed(directory)
        self._snapshots.on_renamed(directory)
        for segment in self._segments:
            segment.on_renamed(directory)

    # Compacting

    def begin_swap(self, old: Sequence[Segment], new: Sequence[Segment]) -> Swap:
        """Replace segments by the cleaned ones made from them.

        From now on reads use the cleaned ones, also after a crash. `continue_swap` does the other
        steps of the swap, each after an fsync of the renames before it.

        Raises  DiskFault, and `failure` is set
        """
        at = self._segments.number_of(old[0].base_offset)
        law(
            tuple(old) == self.segments[at : at + len(old)]
            and old[-1].end_offset <= min(self.recovery_point, self._active.base_offset),
            "LOG-5 only consecutive, inactive and flushed segments are replaced",
            log=self.directory,
            old=[segment.base_offset for segment in old],
        )
        with self._writing():
            self._swap = Swap(self.disk, self.directory, old, new)
            self._swap.step()
        self._segments.replace(old, new)
        self._flushes.is_directory_dirty = True
        return self._swap

    def continue_swap(self, swap: Swap) -> None:
        """Do the next step. Raises DiskFault, and `failure` is set."""
        with self._writing():
            swap.step()
        if swap.is_done:
            self._swap = None

    def _end_cleaning(self) -> None:
        """Void the compaction, and finish a swap that has begun: segments are about to go."""
        self.cleaning = None
        if self._swap is not None:
            self._swap.finish()
            self._swap = None

    # Flushing

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def is_flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages` or `flush.ms` asks for a flush."""
        config, unflushed = self.config, self.unflushed_messages
        return unflushed >= config.flush_messages or (
            unflushed > 0 and now_ms - self.last_flush_ms >= config.flush_ms
        )

    @property
    def is_rolled_unflushed(self) -> bool:
        """True if a rolled segment is not flushed yet: recovery would have to scan it."""
        return self.recovery_point < self._active.base_offset

    def start_flush(self, *, rolled_only: bool = False, closing: bool = False) -> Flush:
        """Return the work that flushes everything appended so far, or rolled so far.

        It flushes the indexes of inactive segments only: recovery rebuilds the active one's.
        """
        return self._flushes.start(self._segments, self.log_end_offset, rolled_only, closing)

    def on_flushed(self, flush: Flush, now_ms: int) -> None:
        """Note that the work of `start_flush` is done; void if the log was truncated since."""
        self.last_flush_ms = now_ms
        if self._flushes.end(flush):
            self.recovery_point = max(self.recovery_point, flush.offset)

    def flush(self, now_ms: int, *, closing: bool = False) -> None:
        """Flush everything here and now; blocks.

        Raises  DiskFault, and `failure` is set: what was appended may be lost
        """
        with self._writing():
            flush = self.start_flush(closing=closing)
            flush.run()
        self.on_flushed(flush, now_ms)

    def start_close(self) -> Flush:
        """Close the log as a clean shutdown does: trimmed, with a snapshot. Blocks.

        It is closed once the returned work is done and `on_flushed` was called. A log that has not
        changed since it was opened costs nothing.
        """
        self._end_cleaning()
        known = self._snapshots.newest
        if self.log_end_offset > (self.log_start_offset if known is None else known):
            self._snapshots.take(self.log_end_offset)
        self._active.rest()
        flush = self.start_flush(closing=True)
        for segment in self._segments:
            segment.close()
        return flush

    def close(self, now_ms: int) -> None:
        """Close the log alone. Blocks."""
        flush = self.start_close()
        flush.run()
        self.on_flushed(flush, now_ms)
