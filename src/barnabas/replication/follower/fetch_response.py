"""Fetch responses at a follower: append, truncate, start over, or wait."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import NO_LEADER_EPOCH, Offset
from barnabas.client.connection import AsyncConnection
from barnabas.client.fetch import FetchedPartition
from barnabas.log.background_work import Removal
from barnabas.log.follower_batches import checked_batches
from barnabas.log.leader_epochs import EpochEnd
from barnabas.replication.follower.fetch_state import Following, Followings
from barnabas.replication.follower.fetcher_ports import FetcherPorts
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.follower.leader_offsets import EARLIEST, LATEST, ask_offset
from barnabas.wire.records.batch import BatchHeader

log = logging.getLogger("barnabas.fetcher")

# The bytes to append before other tasks get their turn.
AT_ONCE: Final = 512 * 1024
# Errors that pass by themselves, once all brokers have the same LeaderAndIsr.
PASSING: Final = (
    ErrorCode.unknown_leader_epoch,
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.inconsistent_topic_id,
    ErrorCode.offset_out_of_range,
)


class FetchResponses:
    """Applies responses to the partitions of one loop; an error of one leaves the others alone.

    After everything that suspends it checks again whether the partition is still followed.
    """

    def __init__(self, ports: FetcherPorts, followings: Followings) -> None:
        self._ports = ports
        self._followings = followings
        self._since_turn = 0
        # Partitions whose passing error has lasted, to be logged together.
        self._troubled: dict[ErrorCode, list[Following]] = {}
        # Replicas whose logs lost records, and where those ended, to be logged together.
        self._truncated: list[tuple[FollowerReplica, Offset]] = []

    # Answers

    async def take(self, answers: Sequence[FetchedPartition], peer: AsyncConnection) -> None:
        """Apply each partition's response. Raises PeerGone, LawBroken."""
        cut: list[FollowerReplica] = []
        appended: list[Following] = []
        out_of_range: list[Following] = []
        for answer in answers:
            following = self._followings.on_answered(answer.topic, answer.partition)
            if following is None or not following.is_as_asked():
                continue
            if answer.error is ErrorCode.offset_out_of_range:
                out_of_range.append(following)
            elif answer.error is not ErrorCode.none:
                self._complain(following, BrokerError(answer.error))
            elif answer.diverging_epoch is not None:
                with self._alone(following):
                    self._truncate(following.follower, EpochEnd(*answer.diverging_epoch))
                    cut.append(following.follower)
            else:
                await self._append(following, answer)
                appended.append(following)
        await self._flush(appended)
        await self._settle(cut)
        for following in out_of_range:
            await self._start_over(following, peer)
        self._report_truncated()
        self._report_troubled()

    async def _append(self, following: Following, answer: FetchedPartition) -> None:
        taken = 0
        epoch = following.follower.epoch
        report = partial(_log_unreadable, following)
        with self._alone(following):
            for batches in checked_batches(answer.records, epoch, AT_ONCE, report):
                self._append_some(following.follower, batches, answer)
                taken += len(batches)
                if await self._gave_way(len(batches)) and not self._followings.holds(following):
                    return
            if not taken:
                self._append_some(following.follower, answer.records[:0], answer)
            following.on_served()
        if taken and self._followings.holds(following):
            self._followings.move_to_end(following)

    def _append_some(
        self, follower: FollowerReplica, batches: memoryview, answer: FetchedPartition
    ) -> None:
        ports = self._ports
        followed = follower.append(
            batches, answer.high_watermark, answer.log_start_offset, ports.clock.now_ms()
        )
        ports.statistics.bytes_in += len(batches)
        if ports.throttle.is_throttled(*follower.topic_partition):
            ports.throttle.record(len(batches))
        self._remove_later(followed.removal)
        if followed.offsets_moved:
            ports.delayed.on_high_watermark(follower.topic_partition)

    async def _flush(self, followings: Sequence[Following]) -> None:
        """Flush as `flush.messages` demands, before the next fetch reports the log's end."""
        for following in followings:
            log = following.follower.log
            if log.unflushed_messages >= log.config.flush_messages:
                flush = log.start_flush()
                with self._alone(following):
                    await self._ports.offload(flush.run)
                    log.on_flushed(flush, self._ports.clock.now_ms())

    async def _gave_way(self, size: int) -> bool:
        self._since_turn += size
        if self._since_turn < AT_ONCE:
            return False
        self._since_turn = 0
        await asyncio.sleep(0)
        return True

    # Truncation

    async def cut_first(self) -> None:
        """Truncate before a partition's first fetch, to the high watermark if epochs cannot decide.

        Records of a later epoch than the leader's go, too: a bit has rotted where no CRC looks, and
        the leader could not say where such an epoch ends. The rest is flushed, if need be: it may
        come from before a kill, or from another leader's response that was not fully applied.
        """
        by_epoch = self._ports.safeguards.epoch_truncation
        while first := list(self._followings.uncut):
            cut: list[FollowerReplica] = []
            for following in first:
                follower = following.follower
                if following not in self._followings.uncut:
                    continue  # a failed disk has stopped it meanwhile
                del self._followings.uncut[following]
                upto = follower.log.epochs.start_above(follower.epoch)
                if not by_epoch or follower.log.epochs.latest == NO_LEADER_EPOCH:
                    upto = follower.high_watermark
                if upto is not None:
                    with self._alone(following):
                        now_ms = self._ports.clock.now_ms()
                        self._on_cut(follower, follower.truncate_to(Offset(upto), now_ms))
                        cut.append(follower)
            await self._settle(cut)
            await self._flush(first)
        self._report_troubled()

    def _truncate(self, follower: FollowerReplica, leader: EpochEnd) -> None:
        end = follower.log.log_end_offset
        self._on_cut(follower, follower.truncate_to_epoch(leader, self._ports.clock.now_ms()))
        self._ports.statistics.truncations += 1
        if follower.log.log_end_offset < end:
            self._truncated.append((follower, end))

    async def _start_over(self, following: Following, peer: AsyncConnection) -> None:
        """Handle OFFSET_OUT_OF_RANGE: the leader's log ends before our end, or begins behind it.

        It ends before only after an unclean election whose epochs do not show where the logs
        diverge.
        """
        follower, timeout_s = following.follower, self._ports.config.fetcher().timeout_s
        with self._alone(following):
            leader_end = await ask_offset(peer, follower, LATEST, timeout_s)
            if not following.is_as_asked():
                return
            if leader_end < follower.log.log_end_offset:
                now_ms = self._ports.clock.now_ms()
                self._on_cut(follower, follower.truncate_to(leader_end, now_ms))
            else:
                leader_start = await ask_offset(peer, follower, EARLIEST, timeout_s)
                if not following.is_as_asked():
                    return
                if leader_start <= follower.log.log_end_offset:
                    raise BrokerError(ErrorCode.offset_out_of_range)  # no longer: ask again
                now_ms = self._ports.clock.now_ms()
                self._on_cut(follower, follower.start_anew_at(leader_start, now_ms))
        await self._settle([follower])

    async def _settle(self, cut: Sequence[FollowerReplica]) -> None:
        """Fsync the truncation before the next append; see `Logs.start_truncation_sync`."""
        known = self._ports.logs
        logs = [
            each.log
            for each in cut
            if each.log.is_unsettled and known.get(each.topic_partition) is each.log
        ]
        if logs:
            settling = known.checkpoints.start_truncation_sync(logs)
            try:
                await self._ports.offload(settling.run)
            except DiskFault as fault:
                self._ports.failures.disk_failed(fault)
            else:
                settling.done()

    def _on_cut(self, follower: FollowerReplica, removal: Removal | None) -> None:
        """Wake consumers after a truncation: their offsets may be beyond the end of the log."""
        self._remove_later(removal)
        self._ports.delayed.on_high_watermark(follower.topic_partition)

    def _remove_later(self, removal: Removal | None) -> None:
        if removal is not None:
            self._ports.removals.remove_later(removal)

    # Errors

    @contextmanager
    def _alone(self, following: Following) -> Iterator[None]:
        """Confine an error to one partition."""
        try:
            yield
        except BrokerError as error:
            if self._followings.holds(following):
                self._complain(following, error)
        except DiskFault as fault:
            self._followings.remove(following.follower.topic_partition)
            self._ports.failures.disk_failed(fault)

    def _complain(self, following: Following, error: BrokerError) -> None:
        """Delay this partition's next fetch, or stop it until the next LeaderAndIsr."""
        partition, code = following.follower.topic_partition, error.code
        if code is ErrorCode.fenced_leader_epoch:
            self._followings.remove(partition)
            self._ports.statistics.failed[partition] = code.name
            log.info(
                "fetching stopped until the next LeaderAndIsr partition=%s epoch=%d: fenced",
                partition,
                following.follower.epoch,
            )
            return
        passing = code in PASSING
        now = asyncio.get_running_loop().time()
        backoff_s = self._ports.config.fetcher().backoff_s
        lasts = self._followings.wait(following, now, backoff_s, passing=passing)
        if lasts and code is not following.trouble:
            following.trouble = code
            if passing:
                self._troubled.setdefault(code, []).append(following)
            else:
                _log_trouble(logging.ERROR, following.follower, error)

    def _report_truncated(self) -> None:
        """Log one line for all logs that lost records."""
        if self._truncated:
            first, end = self._truncated[0]
            log.info(
                "logs truncated count=%d first=%s from=%d to=%d leader=%d epoch=%d",
                len(self._truncated),
                first.topic_partition,
                end,
                first.log.log_end_offset,
                first.leadership.leader,
                first.epoch,
            )
        self._truncated.clear()

    def _report_troubled(self) -> None:
        """Log one line for all partitions with the same error: a restart concerns most of them."""
        for code, followings in self._troubled.items():
            follower = followings[0].follower
            if len(followings) == 1:
                _log_trouble(logging.INFO, follower, BrokerError(code))
            else:
                log.info(
                    "partitions not fetched count=%d first=%s leader=%d why=%s",
                    len(followings),
                    follower.topic_partition,
                    follower.leadership.leader,
                    code.name,
                )
        self._troubled.clear()


def _log_unreadable(following: Following, header: BatchHeader, why: str) -> None:
    """Log the first such batch of a partition: an older leader, or Kafka's, acknowledged it."""
    if not following.has_unreadable:
        following.has_unreadable = True
        log.warning(
            "consumers cannot read a batch partition=%s leader=%d offset=%d why=%s",
            following.follower.topic_partition,
            following.follower.leadership.leader,
            header.base_offset,
            why,
        )


def _log_trouble(level: int, follower: FollowerReplica, error: BrokerError) -> None:
    log.log(
        level,
        "partition not fetched partition=%s leader=%d offset=%d why=%s",
        follower.topic_partition,
        follower.leadership.leader,
        follower.log.log_end_offset,
        error,
    )
