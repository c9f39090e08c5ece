"""Handmade histories of a correct cluster, for tests to corrupt."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.checkers.history import (
    Asked,
    ClientOperation,
    Commit,
    Got,
    OperationHistory,
    OperationOutcome,
    Own,
    Owned,
    Poll,
    Polled,
    Recall,
    Recalled,
    Send,
    Sent,
)
from barnabas.sim.checkers.violations import FinalPartition, FinalState, ViolationKind

AT = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
GROUP = "group"
TOPIC_ID = uuid.UUID(int=7)
OK, FAILED, UNKNOWN = OperationOutcome.OK, OperationOutcome.FAILED, OperationOutcome.UNKNOWN


class Ideal:
    """One group and some partitions of one topic; operations do not overlap."""

    def __init__(self) -> None:
        self._time = 0.0
        self.history = OperationHistory(self._tick)
        self.logs: dict[TopicPartition, list[int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self._sequences: dict[tuple[int, TopicPartition], int] = {}
        self.generation = 0

    def _tick(self) -> float:
        self._time += 1.0
        return self._time

    def done(
        self,
        client: str,
        asked: Asked,
        got: Got | None = None,
        outcome: OperationOutcome = OK,
        why: str = "",
    ) -> ClientOperation:
        operation = self.history.begin(client, asked)
        self.history.end(operation, outcome, got, why)
        return operation

    def send(
        self,
        count: int = 1,
        *,
        at: TopicPartition = AT,
        outcome: OperationOutcome = OK,
        acks: int = -1,
        producer: int = 1,
        is_there: bool | None = None,
    ) -> ClientOperation:
        """Send values; they are in the log unless the send failed or `is_there` is False."""
        log = self.logs.setdefault(at, [])
        sequence = self._sequences.get((producer, at), 0)
        self._sequences[producer, at] = sequence + count
        values = tuple(self.history.new_value() for _ in range(count))
        asked = Send(at, values, acks, producer, 0, sequence)
        got = Sent(len(log)) if outcome is OK else None
        if (outcome is not FAILED) if is_there is None else is_there:
            log.extend(values)
        return self.done(f"producer-{producer}", asked, got, outcome)

    def poll(
        self, position: int = 0, most: int = 100, *, at: TopicPartition = AT, group: str = ""
    ) -> int:
        """Poll; return the next position."""
        log = self.logs.setdefault(at, [])
        records = tuple(enumerate(log))[position : position + most]
        if records:
            self.polled(position, records, at=at, high_watermark=len(log), group=group)
        return position + len(records)

    def polled(
        self,
        position: int,
        records: Sequence[tuple[int, int]],
        *,
        at: TopicPartition = AT,
        high_watermark: int = 1000,
        group: str = "",
    ) -> ClientOperation:
        asked = Poll(at, TOPIC_ID, position, group)
        return self.done("consumer", asked, Polled(tuple(records), high_watermark, 0))

    def owned(self, member: str, *partitions: TopicPartition) -> ClientOperation:
        got = Owned(member, self.generation, tuple(partitions))
        return self.done(member, Own(GROUP), got)

    def commit(
        self,
        offset: int,
        *,
        at: TopicPartition = AT,
        outcome: OperationOutcome = OK,
        member: str = "member",
    ) -> ClientOperation:
        if outcome is OK:
            self.committed[at] = offset
        asked = Commit(GROUP, member, self.generation, ((at, offset),))
        return self.done(member, asked, outcome=outcome)

    def recall(self, *, at: TopicPartition = AT, offset: int | None = None) -> int:
        found = self.committed.get(at, -1) if offset is None else offset
        self.done("member", Recall(GROUP, (at,)), Recalled(((at, found),)))
        return found

    @property
    def final(self) -> FinalState:
        return FinalState(
            tuple(
                FinalPartition(at, TOPIC_ID, len(log), tuple(enumerate(log)))
                for at, log in self.logs.items()
            )
        )

    def found(self) -> list[ViolationKind]:
        """The distinct kinds of violations found."""
        return found(self.history, self.final)


def found(history: OperationHistory, final: FinalState) -> list[ViolationKind]:
    return list(dict.fromkeys(violation.kind for violation in check(history, final)))


def with_replicas(final: FinalState, **replicas: bytes) -> FinalState:
    """The first partition with these logs, by broker."""
    logs = {int(broker.removeprefix("broker_")): log for broker, log in replicas.items()}
    return FinalState((replace(final.partitions[0], replicas=logs), *final.partitions[1:]))
