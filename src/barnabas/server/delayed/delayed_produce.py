"""A Produce with acks=all that waits until all in-sync replicas have its batches.

A batch is acknowledged only in the tenure in which it was appended, once the high watermark is
past it. If this broker followed another in between, the batch may have been truncated: the
producer gets NOT_LEADER_OR_FOLLOWER, and sends it again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Offset
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.requests.replies import Answer, Pending, Refusal

ALL: Final = -1  # acks=all

_DONE: Final = ErrorCode.none


class Awaited:
    """One batch that is in the leader's log, up to `end`; `code` is None as long as it waits."""

    __slots__ = ("code", "end", "leader")

    def __init__(self, leader: LeaderReplica, end: Offset) -> None:
        self.leader = leader
        self.end = end
        self.code: ErrorCode | None = None

    def is_decided(self, replicas: Replicas) -> bool:
        """True if there is nothing to wait for any more; once decided it stays so."""
        if self.code is None:
            self.code = self._decide(replicas)
        return self.code is not None

    def _decide(self, replicas: Replicas) -> ErrorCode | None:
        topic, partition = self.leader.topic_partition
        leader = replicas.find(topic, partition)
        if leader is None:
            return replicas.why_not(topic, partition)
        if leader.tenure is not self.leader.tenure:
            return ErrorCode.not_leader_or_follower
        if leader.is_under_min_isr:
            # Also before the high watermark is there: with so few it does not move on.
            return ErrorCode.not_enough_replicas_after_append
        return _DONE if leader.high_watermark >= self.end else None


class DelayedProduce(DelayedOperation):
    """Responds when every batch is decided; those undecided at its deadline have timed out."""

    __slots__ = ("_awaited", "_replicas", "_respond", "pending")

    def __init__(
        self,
        replicas: Replicas,
        awaited: Sequence[Awaited],
        respond: Callable[[Sequence[ErrorCode]], Answer],
    ) -> None:
        """`respond` makes the answer of how each batch fared, in their order."""
        super().__init__()
        self._replicas = replicas
        self._awaited = awaited
        self._respond = respond
        self.pending = Pending(on_abandoned=self._abandoned, next_may_begin=True)

    def try_complete(self) -> bool:
        decided = True
        for each in self._awaited:
            decided = each.is_decided(self._replicas) and decided
        return decided

    def on_complete(self) -> None:
        answer: Answer | Refusal = Refusal("a bug in the broker")
        try:
            answer = self._respond(
                [
                    ErrorCode.request_timed_out if each.code is None else each.code
                    for each in self._awaited
                ]
            )
        finally:
            self.pending.answer(answer)

    def _abandoned(self) -> None:
        if self.purgatory is not None:
            self.purgatory.cancel(self)
