"""Fetch again and again: what a consumer sends is the same request but for the offset."""

import struct
from collections.abc import Callable
from uuid import UUID

from barnabas.base.errors import BrokerError, DiskFault
from barnabas.base.ids import Offset
from barnabas.base.twins import use_compiled
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.wire.fetch.fetch_codec import Buffer
from barnabas.wire.fetch.single_fetch import SingleAnswer, SingleFetch

_LONG = struct.Struct(">q")


class RepeatedFetch:
    """Serves such requests for one partition, where all is as usual and there is enough.

    Whatever is not as usual is left to `Fetch`.
    """

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
        self._rest = bytes(frame[self._offset_at + 8 :])

    def __call__(self, frame: memoryview, correlation_id: int) -> list[Buffer] | None:
        """The answer, or None if the request takes the long way."""
        if bytes(frame[self._offset_at + 8 :]) != self._rest:
            return None
        return self.answer(_LONG.unpack_from(frame, self._offset_at)[0], correlation_id)

    def answer(self, offset: int, correlation_id: int) -> list[Buffer] | None:
        """The answer to a request for what is at `offset`; None if it takes the long way."""
        topic = self._topic
        name = topic if isinstance(topic, str) else self._name_of(topic)
        leader = None if name is None else self._find(name, self._partition)
        if leader is None or self._known_epoch not in (-1, leader.epoch):
            return None
        if not isinstance(topic, str) and leader.topic_id not in (None, topic):
            return None  # it is of another topic that has the name now
        log, high_watermark, stable = leader.log, leader.high_watermark, leader.last_stable_offset
        upto = stable if self._read_committed else high_watermark
        try:
            records = log.read_warm(Offset(offset), self._most, upto)
        except (BrokerError, DiskFault):
            return None
        if records is None or len(records) < self._least:
            return None
        return self._ready.response(
            correlation_id, high_watermark, stable, log.log_start_offset, records
        )


use_compiled(globals(), "barnabas.server.requests._repeated_fetch", "RepeatedFetch")
