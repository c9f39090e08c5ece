"""Produce requests that repeat: the same request but for the records.

Everything before the records is known to be as it was, byte for byte, so it is not read again.
`Produce` serves what is not as usual. Compiled as it is: `repeated_produce.pxd` has the types.
"""

from collections.abc import Callable

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault
from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import Appended
from barnabas.log.segment.active_segment import MOST_TOGETHER, LogEnd
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.delayed.delayed_produce import ALL
from barnabas.server.requests.frame_run import FrameRun
from barnabas.server.requests.replies import Pending
from barnabas.wire.produce import plain_batch
from barnabas.wire.produce.plain_batch import Answer, PlainBatch

_MOST_TOGETHER = MOST_TOGETHER


class RepeatedProduce:
    """Serves such requests for one partition."""

    __slots__ = (
        "_acknowledge",
        "_acks",
        "_is_transactional",
        "_key",
        "_largest",
        "_leader_of",
        "_now_ms",
        "_plain_config",
        "_refuse",
        "_sized_at",
        "_success",
        "_timeout_ms",
        "_to_all",
        "_version",
        "_wake",
    )

    def __init__(
        self,
        version: int,
        key: tuple[str, int],
        success: Answer,
        sized_at: int,
        replicas: Replicas,
        clock: Clock,
        wake: Callable[[LeaderReplica], None],
        refuse: Callable[[int, int, tuple[str, int], DiskFault], bytes],
        acknowledge: Callable[
            [int, int, LeaderReplica, Appended, int, int], bytes | Pending | None
        ],
        acks: int,
        timeout_ms: int,
        is_transactional: bool,
    ) -> None:
        """`wake` completes the requests that wait for an append; `acknowledge` makes the reply."""
        self._version = version
        self._key = key
        self._success = success
        self._sized_at = sized_at
        self._leader_of = replicas.leader_of
        self._now_ms = clock.now_ms
        self._wake = wake
        self._refuse = refuse
        self._acknowledge = acknowledge
        self._acks = acks
        self._to_all = acks == ALL
        self._timeout_ms = timeout_ms
        self._is_transactional = is_transactional
        # The configuration that is known to be plain, and how large it lets a batch be.
        self._plain_config: TopicConfig | None = None
        self._largest = 0

    def serve_run(self, run: FrameRun) -> Pending | None:
        """Append the batches of the next frames with one write, if nobody follows the partition.

        With followers the next frame alone is served: its reply may have to wait.
        """
        found = self._leader_of(self._key)
        if found is None or not self._is_plain(found):
            return None
        leader: LeaderReplica = found
        is_sole = leader.is_sole
        if not is_sole and self._to_all and leader.is_under_min_isr:
            return None
        batches = self._collect(run, _MOST_TOGETHER if is_sole else 1)
        if not batches:
            return None
        try:
            base_offset = leader.append_plain(batches, self._now_ms())
        except BrokerError:
            return None  # the batches are as they were, and `Produce` refuses them
        except DiskFault as fault:
            self._refused(run, fault)
            return None
        if base_offset is None:
            return None
        self._wake(leader)
        if is_sole:
            self._answer(run, batches, base_offset, leader.log)
            return None
        return self._reply(run, leader, Appended(base_offset, leader.log.log_end_offset))

    def _is_plain(self, leader: LeaderReplica) -> bool:
        config = leader.log.config
        if config is not self._plain_config:
            if not leader.is_plain:
                return False
            self._plain_config = config
            self._largest = leader.largest
        return True

    def _collect(self, run: FrameRun, most: int) -> list[PlainBatch]:
        """The plain batches of the next frames; one that has a sequence comes alone."""
        found: list[PlainBatch] = []
        at = run.start
        for number in range(most):
            length = run.length_at(at)
            if not length or not run.is_alike(at):
                break
            end = at + 4 + length
            batch = self._batch_in(run.view, at + 4, end)
            if batch is None or (number and batch.producer_id >= 0):
                break
            found.append(batch)
            if batch.producer_id >= 0:
                break
            at = end
        return found

    def _batch_in(self, view: memoryview, start: int, end: int) -> PlainBatch | None:
        first, last = plain_batch.find_records(self._version, view, start, end, self._sized_at)
        if not first:
            return None
        return plain_batch.judge_plain(view, first, last, self._largest, self._is_transactional)

    def _answer(self, run: FrameRun, batches: list[PlainBatch], offset: int, log: LogEnd) -> None:
        """Respond to the frames whose batches were appended, from `offset` on."""
        success = self._success
        start_offset = log.log_start_offset
        count = _count_within(batches, log.log_end_offset - offset)
        if count == 1:
            run.add(success.response(run.correlation_id(), offset, -1, start_offset))
            run.pass_over(run.length_at(run.start))
            return
        responses = success.several(count)
        view = memoryview(responses)
        for number in range(count):
            batch = batches[number]
            success.put(view, number, run.correlation_id(), offset, -1, start_offset)
            run.pass_over(run.length_at(run.start))
            offset += batch.record_count
        run.add(responses)

    def _refused(self, run: FrameRun, fault: DiskFault) -> None:
        run.add(self._refuse(self._version, run.correlation_id(), self._key, fault))
        run.pass_over(run.length_at(run.start))

    def _reply(self, run: FrameRun, leader: LeaderReplica, appended: Appended) -> Pending | None:
        reply = self._acknowledge(
            self._version, run.correlation_id(), leader, appended, self._acks, self._timeout_ms
        )
        run.pass_over(run.length_at(run.start))
        if isinstance(reply, Pending):
            return reply
        if reply is not None:
            run.add(reply)
        return None


def _count_within(batches: list[PlainBatch], records: int) -> int:
    """The number of batches that have so many records in all."""
    count = 0
    while count < len(batches) and records > 0:
        batch = batches[count]
        records -= batch.record_count
        count += 1
    return count
