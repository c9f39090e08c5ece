"""A DeleteRecords that waits until the logs of all live replicas begin at its offsets."""

import asyncio
from collections.abc import Iterable

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Offset
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas


class Deletion:
    """The result for one partition; `code` is None until all replicas have followed."""

    __slots__ = ("_leader", "_offset", "code", "low_watermark")

    def __init__(self, leader: LeaderReplica | None, offset: Offset, code: ErrorCode | None = None):
        """Up to `offset` by `leader`, or refused with `code`."""
        self._leader = leader
        self._offset = offset
        self.code = code
        self.low_watermark = -1

    def is_decided(self, replicas: Replicas) -> bool:
        """True if there is nothing to wait for any more; once decided it stays so."""
        if self.code is None and self._leader is not None:
            topic, partition = self._leader.topic_partition
            leader = replicas.find(topic, partition)
            if leader is None:
                self.code = replicas.why_not(topic, partition)
            elif leader.tenure is not self._leader.tenure:
                self.code = ErrorCode.not_leader_or_follower
            elif (low_watermark := leader.low_watermark) >= self._offset:
                self.code, self.low_watermark = ErrorCode.none, low_watermark
        return self.code is not None


class DelayedDeleteRecords(DelayedOperation):
    """Ends when every partition is decided; those undecided at its deadline have timed out."""

    __slots__ = ("_replicas", "_undecided", "done")

    def __init__(self, replicas: Replicas, deletions: Iterable[Deletion]) -> None:
        super().__init__()
        self._replicas = replicas
        self._undecided = list(deletions)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def try_complete(self) -> bool:
        # Each of ten thousand partitions that changes must not lead to a look at all of them.
        while self._undecided and self._undecided[-1].is_decided(self._replicas):
            self._undecided.pop()
        return not self._undecided

    def on_complete(self) -> None:
        for each in self._undecided:
            if not each.is_decided(self._replicas):
                each.code = ErrorCode.request_timed_out
        if not self.done.done():  # else the request was cancelled
            self.done.set_result(None)
