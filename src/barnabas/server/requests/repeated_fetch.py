"""Fetch requests that repeat: the same request but for the offset.

`Fetch` serves what is not as usual. Compiled as it is: `repeated_fetch.pxd` has the types.
"""

from collections.abc import Callable
from uuid import UUID

from barnabas.base import buffers
from barnabas.base.errors import BrokerError, DiskFault
from barnabas.disk import open_file
from barnabas.log.segment.active_segment import LogEnd
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.server.requests.fast_path import SEND_AT
from barnabas.server.requests.frame_run import FrameRun
from barnabas.wire.fetch.fetch_codec import Buffer
from barnabas.wire.fetch.single_answer import SingleAnswer
from barnabas.wire.fetch.single_fetch import SingleFetch

_SEND_AT = SEND_AT


class RepeatedFetch:
    """Serves such requests for one partition, while there are enough records in the page cache."""

    __slots__ = (
        "_find",
        "_known_epoch",
        "_least",
        "_most",
        "_name_of",
        "_offset_at",
        "_partition",
        "_read_committed",
        "_ready",
        "_rest",
        "_topic",
    )

    def __init__(
        self,
        single: SingleFetch,
        ready: SingleAnswer,
        frame: memoryview,
        find: Callable[[str, int], LeaderReplica | None],
        name_of: Callable[[UUID], str | None],
        max_bytes: int,
    ) -> None:
        """`frame` is the request that `single` was read from; no answer is beyond `max_bytes`."""
        self._topic = single.topic
        self._partition = single.partition
        self._most = min(single.partition_max_bytes, single.max_bytes, max_bytes)
        self._least = max(1, single.min_bytes)
        self._known_epoch = single.current_leader_epoch
        self._read_committed = single.read_committed
        self._ready = ready
        self._find = find
        self._name_of = name_of
        self._offset_at = single.offset_at
        self._rest = bytes(frame[single.offset_at + 8 :])

    def answer(self, offset: int, correlation_id: int) -> list[Buffer] | None:
        """The response to a request for `offset`; None if it takes the long way."""
        open_file.look_again()
        found = self._leader()
        if found is None:
            return None
        leader: LeaderReplica = found
        log: LogEnd = leader.log
        high_watermark = leader.high_watermark
        stable = leader.last_stable_offset
        records = self._records(log, offset, stable if self._read_committed else high_watermark)
        if records is None:
            return None
        start = log.log_start_offset
        return self._ready.response(correlation_id, high_watermark, stable, start, records)

    def serve_run(self, run: FrameRun) -> None:
        """Serve the next frame, and those behind it that ask for the same partition.

        Nothing happens to the partition in between, so it is looked up once.
        """
        found = self._leader()
        if found is None:
            return
        leader: LeaderReplica = found
        log: LogEnd = leader.log
        high_watermark = leader.high_watermark
        stable = leader.last_stable_offset
        upto = stable if self._read_committed else high_watermark
        view = run.view
        length = run.length_at(run.start)
        while length:
            at = run.start
            if not self._is_as_usual(view, at + 4, at + 4 + length):
                return
            records = self._records(log, buffers.long_at(view, at + 4 + self._offset_at), upto)
            if records is None:
                return
            run.queued += self._ready.add(
                run.out,
                buffers.int_at(view, at + 8),
                high_watermark,
                stable,
                log.log_start_offset,
                records,
            )
            after = at + 4 + length
            is_next_alike = run.queued < _SEND_AT and self._is_alike_after(run, after)
            run.pass_over(length)
            length = run.length_at(after) if is_next_alike else 0

    def _is_alike_after(self, run: FrameRun, after: int) -> bool:
        return run.length_at(after) > 0 and run.is_alike(after)

    def _is_as_usual(self, view: memoryview, start: int, end: int) -> bool:
        """Return whether the frame is as the first, but for the offset."""
        rest = start + self._offset_at + 8
        return rest <= end and buffers.is_at(view, rest, end, self._rest)

    def _leader(self) -> LeaderReplica | None:
        """The leader of the partition, if the client means that one."""
        topic = self._topic
        name = topic if isinstance(topic, str) else self._name_of(topic)
        leader = None if name is None else self._find(name, self._partition)
        if leader is None or (self._known_epoch != -1 and self._known_epoch != leader.epoch):
            return None
        if not isinstance(topic, str) and leader.topic_id not in (None, topic):
            return None  # another topic has the name now
        return leader

    def _records(self, log: LogEnd, offset: int, upto: int) -> memoryview | None:
        """The records to send, if there are enough in the page cache.

        Among what was aborted the response needs a list, which the long way makes.
        """
        if self._read_committed and offset <= log.aborted_upto:
            return None
        try:
            records = log.read_warm(offset, self._most, upto)
        except (BrokerError, DiskFault):
            return None
        return None if records is None or len(records) < self._least else records
