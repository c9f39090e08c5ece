"""The interfaces of the runtime: the state machine that it runs, and the log that it writes to."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Offset, TopicPartition
from barnabas.coordinator.result import (
    CoordinatorRecord,
    CoordinatorResult,
    Now,
    TimerKey,
    TransactionEnd,
)
from barnabas.log.log import Log
from barnabas.log.producers.verification import VerificationGuard

Reply = TypeVar("Reply")


class CoordinatorShard(Protocol):
    """The state of one partition of the internal topic, and the decisions about it.

    State that records hold changes by `replay` alone. Soft state is lost with the shard.
    """

    def __len__(self) -> int:
        """How many groups or transactions it holds."""

    def replay(self, record: CoordinatorRecord, producer_id: int | None = None) -> None:
        """Apply a record, while the log is loaded or after it was appended.

        `producer_id` is set for a record of a transaction.

        Raises  MalformedRecord, if the record cannot be read; nothing has changed
        """

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Apply the end marker of a transaction."""

    def on_loaded(self, now: Now) -> CoordinatorResult[None]:
        """The log was replayed to its end: arm the timers that a leader before had armed."""

    def on_timer(self, key: TimerKey, now: Now) -> CoordinatorResult[None]:
        """A timer expired; its reason may be gone.

        If the records cannot be appended, the timer expires again soon.
        """

    def on_append_failed(
        self, result: CoordinatorResult[Reply], error: ErrorCode, now: Now
    ) -> CoordinatorResult[Reply]:
        """The records of a result are not in the log: the result, without records, in its place."""


class PartitionWriter(Protocol):
    """Writes to the partitions of the internal topic that this broker leads."""

    def log(self, partition: TopicPartition) -> Log | None:
        """The log of the partition; None if this broker does not lead it."""

    def append(
        self,
        partition: TopicPartition,
        batch: memoryview,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> Offset:
        """Append a batch. Returns the offset at which the high watermark commits it.

        The first batch of a transaction needs its guard.

        Does not suspend, and calls nothing back.

        Raises  BrokerError, if this broker does not lead the partition or too few replicas are in
                sync; DiskFault
        """

    def append_marker(self, partition: TopicPartition, end: TransactionEnd, now_ms: int) -> Offset:
        """Append the end marker of a transaction, as `append` does with a batch."""

    def is_sole(self, partition: TopicPartition) -> bool:
        """True if this broker leads the partition and has its only replica: what is appended is
        committed on return, and flushed as the topic asks for.
        """

    def when_committed(
        self,
        partition: TopicPartition,
        end: Offset,
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Call `done` once: with `none` when the high watermark is at `end`, at once if it is.

        Otherwise with the error that prevents it, or request_timed_out.
        """
