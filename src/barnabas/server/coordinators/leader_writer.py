"""The partitions of internal topics as their leaders write them: append, wake, await commit."""

from collections.abc import Callable

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.coordinator.result import TransactionEnd
from barnabas.log.log import Log
from barnabas.log.producers.verification import VerificationGuard
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replication.replicas import Replicas
from barnabas.server.delayed.delayed_produce import Awaited
from barnabas.server.delayed.partition_purgatories import Delayed


class LeaderWriter:
    """A `PartitionWriter` over the leaders on this broker."""

    def __init__(
        self, replicas: Replicas, delayed: Delayed, safeguards: Safeguards = IN_FORCE
    ) -> None:
        self._replicas = replicas
        self._flushes = safeguards.flush_before_answer
        self._delayed = delayed

    def log(self, partition: TopicPartition) -> Log | None:
        leader = self._replicas.find(*partition)
        return None if leader is None else leader.log

    def append(
        self,
        partition: TopicPartition,
        batch: memoryview,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> Offset:
        leader = self._replicas.leader(*partition)
        leader.check_in_sync()
        end = leader.append(batch, now_ms, guard=guard, from_client=False).end
        self._flush_if_asked(leader.log, now_ms)
        self._delayed.on_append(leader)
        return end

    def append_marker(self, partition: TopicPartition, end: TransactionEnd, now_ms: int) -> Offset:
        leader = self._replicas.leader(*partition)
        appended = leader.append_marker(*end[:3], now_ms, end.transaction_version)
        self._flush_if_asked(leader.log, now_ms)
        self._delayed.on_append(leader)
        return appended.end

    def is_sole(self, partition: TopicPartition) -> bool:
        leader = self._replicas.find(*partition)
        return leader is not None and leader.is_sole

    def when_committed(
        self,
        partition: TopicPartition,
        end: Offset,
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        leader = self._replicas.find(*partition)
        if leader is not None and leader.high_watermark >= end:
            done(ErrorCode.none)
            return
        try:
            leader = self._replicas.leader(*partition)
        except BrokerError as e:
            done(e.code)
            return
        committed = _DelayedCommit(Awaited(leader, end), self._replicas, done)
        self._delayed.produces.try_complete_else_watch(committed, [partition], timeout_ms)

    def _flush_if_asked(self, log: Log, now_ms: int) -> None:
        """Flush as `flush.messages` demands, before followers have the records; blocks, as in
        Kafka.

        A commit counts on this replica, too: a marker is sent, an answer given, when followers
        alone have flushed.

        Raises  DiskFault
        """
        if self._flushes and log.unflushed_messages >= log.config.flush_messages:
            log.flush(now_ms)


class _DelayedCommit(DelayedOperation):
    """Records that wait until all in-sync replicas have them."""

    __slots__ = ("_awaited", "_done", "_replicas")

    def __init__(
        self, awaited: Awaited, replicas: Replicas, done: Callable[[ErrorCode], None]
    ) -> None:
        super().__init__()
        self._awaited = awaited
        self._replicas = replicas
        self._done = done

    def try_complete(self) -> bool:
        return self._awaited.is_decided(self._replicas)

    def on_complete(self) -> None:
        code = self._awaited.code
        self._done(ErrorCode.request_timed_out if code is None else code)
