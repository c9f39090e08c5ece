"""Checks of records: none lost, duplicated, invented, moved, reordered or read uncommitted."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import (
    COMPACTED,
    FADING,
    NO_OFFSET,
    NOT_OURS,
    RETAINED_BYTES,
    ClientOperation,
    Delete,
    OperationHistory,
    OperationOutcome,
    Poll,
    Polled,
    Send,
    Sent,
    Trim,
    key_of,
    payload,
)
from barnabas.sim.checkers.violations import FinalPartition, FinalState, Violation, ViolationKind

_ALL = -1  # acks
# The maximal overhead of a batch and of each of its records, in bytes.
_BATCH_BYTES, _RECORD_BYTES = 70, 30
_Log = tuple[uuid.UUID, int]


@dataclass(slots=True)
class _Places:
    """The value at each offset of one log, according to all clients and the final state."""

    at: TopicPartition
    values: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)

    def claim(self, offset: int, value: int, who: str) -> Iterator[Violation]:
        was = self.values.setdefault(offset, value)
        if was != value:
            facts = f"{self.at} offset {offset} has value {was}, and {value} says {who}"
            yield Violation(ViolationKind.INCONSISTENT, facts)
        if value == NOT_OURS:
            return  # damaged records are not duplicates of each other
        before = self.offsets.setdefault(value, offset)
        if before != offset:
            facts = f"{self.at} value {value} is at offset {before}, and at {offset} says {who}"
            yield Violation(ViolationKind.DUPLICATE, facts)


def check_log(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    """Producers' acknowledgements, consumers' reads and the final state must form one log each.

    Records of topics with a DeleteTopics request may be gone; reads of one topic id must still
    form one log.
    """
    deleted = {delete.topic for _, delete in history.of(Delete)}
    ends = {(each.topic_id, each.at.partition): each for each in final.partitions}
    places = {log: _Places(end.at) for log, end in ends.items()}
    yield from _check_ends(final, places)
    yield from _check_starts(history, final)
    yield from _check_acknowledged(history, final, places, deleted)
    yield from _check_polls(history, places, ends, deleted)
    yield from _check_origins(history, places)
    yield from _check_order(history, final)
    yield from _check_sequences(history, final, deleted)


def _check_ends(final: FinalState, places: dict[_Log, _Places]) -> Iterator[Violation]:
    """Each offset of the log has one record, the same for all. Watches LOG-7."""
    for end in final.partitions:
        for offset, value in end.records:
            yield from places[end.topic_id, end.at.partition].claim(offset, value, "the end")
        offsets = [offset for offset, _ in end.records]
        yield from _check_steps(end.at, end.log_start, offsets, "the end")


def _check_starts(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    """The log start advances only by DeleteRecords or by retention.bytes.

    As in Kafka, records that only a past leader had count for retention until they are truncated.
    Deleted records may reappear: a restarted broker may not know the log start offset yet.
    """
    for end in final.partitions:
        asked = max((trim.before for _, trim in history.of(Trim) if trim.at == end.at), default=0)
        if end.log_start <= asked:
            continue
        kept = min(map(len, end.replicas.values()), default=0)
        present = {value for _, value in end.records}
        cut_off = sum(
            _most_bytes(send)
            for operation, send in history.of(Send)
            if send.at == end.at
            and not (operation.outcome is OperationOutcome.OK and send.acks == _ALL)
            and not present.issuperset(send.values)
        )
        if kept + cut_off < RETAINED_BYTES:
            facts = f"{end.at} starts at {end.log_start}, not {asked}, with {kept} bytes left"
            yield Violation(ViolationKind.DELETED, facts)


def _most_bytes(send: Send) -> int:
    return _BATCH_BYTES + sum(_RECORD_BYTES + len(payload(value)) for value in send.values)


def _check_acknowledged(
    history: OperationHistory, final: FinalState, places: dict[_Log, _Places], deleted: set[str]
) -> Iterator[Violation]:
    """Every record acknowledged with acks=all is there at the end. Watches ACK-1."""
    ends = {end.at: end for end in final.partitions}
    present = {end.at: {value for _, value in end.records} for end in final.partitions}
    for operation, send in history.of(Send):
        is_promised = operation.outcome is OperationOutcome.OK and send.acks == _ALL
        if not is_promised or send.at.topic in deleted:
            continue
        there = present.get(send.at, set())
        lost = [value for value in send.values if value not in there]
        if send.at.topic == COMPACTED:
            lost = list(_not_superseded(operation, send, lost, ends.get(send.at)))
        elif send.at.topic == FADING:
            lost = list(_not_faded(operation, send, lost, ends.get(send.at)))
        if lost:
            yield Violation(ViolationKind.LOST, f"{lost} of {operation}")
        elif isinstance(operation.got, Sent) and operation.got.base_offset != NO_OFFSET:
            log = places[ends[send.at].topic_id, send.at.partition]
            for offset, value in enumerate(send.values, operation.got.base_offset):
                yield from log.claim(offset, value, operation.client)


def _not_superseded(
    operation: ClientOperation, send: Send, absent: list[int], end: FinalPartition | None
) -> Iterator[int]:
    """The values whose keys have no later record either."""
    last = {key_of(value): offset for offset, value in end.records} if end else {}
    base = operation.got.base_offset if isinstance(operation.got, Sent) else NO_OFFSET
    for value in absent:
        own = NO_OFFSET if base == NO_OFFSET else base + send.values.index(value)
        if last.get(key_of(value), NO_OFFSET) <= own:
            yield value


def _not_faded(
    operation: ClientOperation, send: Send, absent: list[int], end: FinalPartition | None
) -> Iterator[int]:
    """The values at or after the log start, as far as their offsets are known."""
    base = operation.got.base_offset if isinstance(operation.got, Sent) else NO_OFFSET
    for value in absent:
        if end is None or (base != NO_OFFSET and base + send.values.index(value) >= end.log_start):
            yield value


def _check_polls(
    history: OperationHistory,
    places: dict[_Log, _Places],
    ends: dict[_Log, FinalPartition],
    deleted: set[str],
) -> Iterator[Violation]:
    """Every record that a consumer has read stays at its offset. Watches READ-1."""
    for operation, poll in history.of(Poll):
        # A group's position may be one of an earlier topic of the same name.
        if operation.outcome is OperationOutcome.FAILED and not (
            poll.group and poll.at.topic in deleted
        ):
            end = ends.get((poll.topic_id, poll.at.partition))
            yield from _check_refused(operation, poll, end)
        if not isinstance(operation.got, Polled):
            continue
        log = places.setdefault((poll.topic_id, poll.at.partition), _Places(poll.at))
        offsets = [offset for offset, _ in operation.got.records]
        yield from _check_steps(poll.at, poll.position, offsets, operation.client)
        if offsets and offsets[-1] >= operation.got.high_watermark:
            yield Violation(ViolationKind.UNCOMMITTED, f"{operation}")
        for offset, value in operation.got.records:
            yield from log.claim(offset, value, operation.client)
        end = ends.get((poll.topic_id, poll.at.partition))
        if end is not None and offsets and offsets[-1] >= end.high_watermark:
            facts = f"{poll.at} ends at {end.high_watermark}, yet {operation}"
            yield Violation(ViolationKind.UNCOMMITTED, facts)


def _check_refused(
    operation: ClientOperation, poll: Poll, end: FinalPartition | None
) -> Iterator[Violation]:
    """A position that was read up to stays in range, unless the oldest records are deleted.

    A group member that takes over a position may still ask a past leader that is partitioned
    away and, as in Kafka, does not know of its successor.
    """
    is_there = end is not None and poll.position <= end.high_watermark
    may_be_refused = is_there and (poll.group or poll.at.topic == FADING)
    if operation.why == "offset_out_of_range" and not may_be_refused:
        facts = f"{poll.at} was read up to {poll.position}, now out of range: {operation}"
        yield Violation(ViolationKind.UNCOMMITTED, facts)
    elif operation.why == "corrupt":
        yield Violation(ViolationKind.DAMAGED, str(operation))


def _check_steps(
    at: TopicPartition, position: int, offsets: list[int], who: str
) -> Iterator[Violation]:
    """Offsets are dense, except after compaction, and each poll continues the one before."""
    for before, offset in pairwise([position - 1, *offsets]):
        if offset > before + 1 and at.topic != COMPACTED:
            yield Violation(ViolationKind.SKIPPED, f"{at} {who} got {offset} after {before}")
        elif offset <= before:
            yield Violation(ViolationKind.NON_MONOTONE, f"{at} {who} got {offset} after {before}")


def _check_origins(history: OperationHistory, places: dict[_Log, _Places]) -> Iterator[Violation]:
    """Every record seen was sent to that partition, and not rejected."""
    sends = {value: each for each in history.of(Send) for value in each[1].values}
    for log in places.values():
        for offset, value in log.values.items():
            operation, send = sends.get(value, (None, None))
            if operation is None or send is None or send.at != log.at:
                yield Violation(
                    ViolationKind.PHANTOM, f"{log.at} has {value} at {offset}, from {operation}"
                )
            elif operation.outcome is OperationOutcome.FAILED:
                yield Violation(
                    ViolationKind.ABORTED, f"{log.at} has {value} at {offset}: {operation}"
                )


def _check_order(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    """Records of one producer epoch stay in their order."""
    numbered = {
        value: ((send.producer_id, send.producer_epoch), send.sequence + n)
        for _, send in history.of(Send)
        for n, value in enumerate(send.values)
    }
    for end in final.partitions:
        last: dict[tuple[int, int], int] = {}
        for offset, value in end.records:
            if value not in numbered:
                continue
            producer, sequence = numbered[value]
            if sequence < last.get(producer, -1):
                facts = f"{end.at} offset {offset}: {sequence} after {last[producer]} of {producer}"
                yield Violation(ViolationKind.REORDERED, facts)
            last[producer] = sequence


def _check_sequences(
    history: OperationHistory, final: FinalState, deleted: set[str]
) -> Iterator[Violation]:
    """An idempotent producer with acks=all gets no out-of-order error for its next batch.

    Exceptions: a batch that is in the log before a later one of the producer, since a restarted
    broker, as in Kafka, knows only the last batch of each producer; and batches that may have
    been deleted. No broker knows a later epoch of a producer than the producer itself.
    """
    unsure: set[tuple[int, int, TopicPartition]] = set()
    last = _last_sequences(history, final)
    starts = {end.at: end.log_start for end in final.partitions}
    next_offset: dict[tuple[int, int, TopicPartition], int] = {}
    for operation, send in history.of(Send):
        producer = (send.producer_id, send.producer_epoch, send.at)
        if isinstance(operation.got, Sent) and operation.got.base_offset != NO_OFFSET:
            next_offset[producer] = operation.got.base_offset + len(send.values)
        if operation.outcome is OperationOutcome.OK or send.at.topic in deleted:
            continue
        is_first = producer not in unsure
        unsure.add(producer)
        is_gap = operation.why == "out_of_order_sequence_number" and send.acks == _ALL
        is_gap &= last.get(producer, -1) < send.sequence + len(send.values)
        is_gap &= starts.get(send.at, 0) <= next_offset.get(producer, 0)
        if (is_gap and is_first) or operation.why in (
            "invalid_producer_epoch",
            "unknown_producer_id",
        ):
            yield Violation(ViolationKind.FORGOTTEN, str(operation))


def _last_sequences(
    history: OperationHistory, final: FinalState
) -> dict[tuple[int, int, TopicPartition], int]:
    """The last sequence of each producer that is in the final logs, or may have been compacted."""
    there = {value for end in final.partitions for _, value in end.records}

    def may_be_gone(operation: ClientOperation, send: Send) -> bool:
        return send.at.topic == COMPACTED and operation.outcome is not OperationOutcome.FAILED

    return {
        (send.producer_id, send.producer_epoch, send.at): send.sequence
        for operation, send in history.of(Send)
        if not there.isdisjoint(send.values) or may_be_gone(operation, send)
    }
