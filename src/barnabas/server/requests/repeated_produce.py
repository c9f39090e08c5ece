"""Produce again and again: what a producer sends is the same request but for the records."""

import struct
from collections.abc import Callable

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault
from barnabas.base.twins import use_compiled
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.replication.leader.leader_replica import LeaderReplica, Produced
from barnabas.replication.replicas import Replicas
from barnabas.server.delayed.delayed_produce import ALL
from barnabas.server.requests.replies import Pending
from barnabas.wire.produce.plain_batch import Answer, last_records


class RepeatedProduce:
    """Serves such requests for one partition.

    Everything before the records is known to be as it was, byte for byte, so it need not be
    read. Whatever is not as usual is left to `Produce`.
    """

    __slots__ = (
        "_acks",
        "_clock",
        "_consumers",
        "_key",
        "_refuse",
        "_replicas",
        "_replicated",
        "_sized_at",
        "_success",
        "_timeout_ms",
        "_version",
    )

    def __init__(
        self,
        version: int,
        key: tuple[str, int],
        success: Answer,
        sized_at: int,
        replicas: Replicas,
        clock: Clock,
        consumers: Purgatory[DelayedOperation],
        refuse: Callable[[int, int, tuple[str, int], DiskFault], bytes],
        replicated: Callable[[int, int, LeaderReplica, Produced, int, int], bytes | Pending | None],
        acks: int,
        timeout_ms: int,
    ) -> None:
        self._replicated = replicated
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._refuse = refuse
        self._version = version
        self._key = key
        self._success = success
        self._sized_at = sized_at
        self._replicas = replicas
        self._clock = clock
        self._consumers = consumers

    def __call__(self, frame: memoryview, correlation_id: int) -> bytes | Pending | None:
        """The answer, or None if the request takes the long way."""
        key = self._key
        leader = self._replicas.leader_of(key)
        if leader is None or not leader.is_plain:
            return None
        is_sole = leader.is_sole
        if not is_sole and self._acks == ALL and leader.is_under_min_isr:
            return None
        try:
            records = last_records(self._version, frame, self._sized_at)
            if records is None:
                return None
            base_offset = leader.append_plain(records, self._clock.now_ms())
        except (struct.error, BrokerError):
            return None  # the batch is as it was, and refused there
        except DiskFault as fault:
            return self._refuse(self._version, correlation_id, key, fault)
        if base_offset is None:
            return None
        if not is_sole:
            produced = Produced(base_offset, -1, leader.log.log_end_offset)
            return self._replicated(
                self._version, correlation_id, leader, produced, self._acks, self._timeout_ms
            )
        if self._consumers.is_watched(key):
            self._consumers.check_and_complete(key)
        return self._success.response(correlation_id, base_offset, -1, leader.log.log_start_offset)


use_compiled(globals(), "barnabas.server.requests._repeated_produce", "RepeatedProduce")
