"""Checks records: none lost, doubled, invented, moved or read too early, and each poll goes on."""

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
    Delete,
    History,
    Operation,
    Outcome,
    Poll,
    Polled,
    Send,
    Sent,
    Trim,
    key_of,
    payload,
)
from barnabas.sim.checkers.violations import Final, FinalPartition, Kind, Violation

_ALL = -1  # acks
# What a batch, and each of its records, takes besides the records' own bytes, at the most.
_BATCH_BYTES, _RECORD_BYTES = 70, 30
_Log = tuple[uuid.UUID, int]


@dataclass(slots=True)
class _Places:
    """Which value is at which offset of one log, from all who claim to know."""

    at: TopicPartition
    values: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)

    def claim(self, offset: int, value: int, who: str) -> Iterator[Violation]:
        was = self.values.setdefault(offset, value)
        if was != value:
            facts = f"{self.at} offset {offset} has value {was}, and {value} says {who}"
            yield Violation(Kind.INCONSISTENT, facts)
        if value == NOT_OURS:
            return  # damaged records are no duplicates of each other
        before = self.offsets.setdefault(value, offset)
        if before != offset:
            facts = f"{self.at} value {value} is at offset {before}, and at {offset} says {who}"
            yield Violation(Kind.DUPLICATE, facts)


def check_log(history: History, final: Final) -> Iterator[Violation]:
    """What producers were told, consumers read, and is there at the end must be one log each.

    Of topics that someone wanted deleted, what was sent may be gone; what was read must still
    have been one log as long as the topic's id was the same.
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


def _check_ends(final: Final, places: dict[_Log, _Places]) -> Iterator[Violation]:
    """Each offset of the log has one record, the same for all. Watches LOG-7."""
    for end in final.partitions:
        for offset, value in end.records:
            yield from places[end.topic_id, end.at.partition].claim(offset, value, "the end")
        offsets = [offset for offset, _ in end.records]
        yield from _check_steps(end.at, end.log_start, offsets, "the end")


def _check_starts(history: History, final: Final) -> Iterator[Violation]:
    """What goes first is what someone wanted deleted, or what is more than is retained.

    As in Kafka, what a past leader had alone counted until it was cut off. That deleted records
    stay away is not promised: brokers that start anew may not know yet.
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
            and not (operation.outcome is Outcome.OK and send.acks == _ALL)
            and not present.issuperset(send.values)
        )
        if kept + cut_off < RETAINED_BYTES:
            facts = f"{end.at} begins at {end.log_start}, {asked} was asked, {kept} bytes are left"
            yield Violation(Kind.DELETED, facts)


def _most_bytes(send: Send) -> int:
    return _BATCH_BYTES + sum(_RECORD_BYTES + len(payload(value)) for value in send.values)


def _check_acknowledged(
    history: History, final: Final, places: dict[_Log, _Places], deleted: set[str]
) -> Iterator[Violation]:
    """What was acknowledged with acks=all is there at the end. Watches ACK-1."""
    ends = {end.at: end for end in final.partitions}
    present = {end.at: {value for _, value in end.records} for end in final.partitions}
    for operation, send in history.of(Send):
        is_promised = operation.outcome is Outcome.OK and send.acks == _ALL
        if not is_promised or send.at.topic in deleted:
            continue
        there = present.get(send.at, set())
        lost = [value for value in send.values if value not in there]
        if send.at.topic == COMPACTED:
            lost = list(_not_superseded(operation, send, lost, ends.get(send.at)))
        elif send.at.topic == FADING:
            lost = list(_not_faded(operation, send, lost, ends.get(send.at)))
        if lost:
            yield Violation(Kind.LOST, f"{lost} of {operation}")
        elif isinstance(operation.got, Sent) and operation.got.base_offset != NO_OFFSET:
            log = places[ends[send.at].topic_id, send.at.partition]
            for offset, value in enumerate(send.values, operation.got.base_offset):
                yield from log.claim(offset, value, operation.client)


def _not_superseded(
    operation: Operation, send: Send, absent: list[int], end: FinalPartition | None
) -> Iterator[int]:
    """The values for whose key there is no later record either."""
    last = {key_of(value): offset for offset, value in end.records} if end else {}
    base = operation.got.base_offset if isinstance(operation.got, Sent) else NO_OFFSET
    for value in absent:
        own = NO_OFFSET if base == NO_OFFSET else base + send.values.index(value)
        if last.get(key_of(value), NO_OFFSET) <= own:
            yield value


def _not_faded(
    operation: Operation, send: Send, absent: list[int], end: FinalPartition | None
) -> Iterator[int]:
    """The values that are not before the beginning of the log, as far as their place is known."""
    base = operation.got.base_offset if isinstance(operation.got, Sent) else NO_OFFSET
    for value in absent:
        if end is None or (base != NO_OFFSET and base + send.values.index(value) >= end.log_start):
            yield value


def _check_polls(
    history: History,
    places: dict[_Log, _Places],
    ends: dict[_Log, FinalPartition],
    deleted: set[str],
) -> Iterator[Violation]:
    """What a consumer has read stays where it was read. Watches READ-1."""
    for operation, poll in history.of(Poll):
        # A group's position may be of a topic that had the same name.
        if operation.outcome is Outcome.FAILED and not (poll.group and poll.at.topic in deleted):
            end = ends.get((poll.topic_id, poll.at.partition))
            yield from _check_refused(operation, poll, end)
        if not isinstance(operation.got, Polled):
            continue
        log = places.setdefault((poll.topic_id, poll.at.partition), _Places(poll.at))
        offsets = [offset for offset, _ in operation.got.records]
        yield from _check_steps(poll.at, poll.position, offsets, operation.client)
        if offsets and offsets[-1] >= operation.got.high_watermark:
            yield Violation(Kind.UNCOMMITTED, f"{operation}")
        for offset, value in operation.got.records:
            yield from log.claim(offset, value, operation.client)
        end = ends.get((poll.topic_id, poll.at.partition))
        if end is not None and offsets and offsets[-1] >= end.high_watermark:
            facts = f"{poll.at} ends at {end.high_watermark}, yet {operation}"
            yield Violation(Kind.UNCOMMITTED, facts)


def _check_refused(
    operation: Operation, poll: Poll, end: FinalPartition | None
) -> Iterator[Violation]:
    """A position that was read up to stays one, unless the oldest records go.

    Whoever takes over another's may still ask the leader before the one that had given it: as
    Kafka's, that one does not know of a later one while it is cut off.
    """
    is_there = end is not None and poll.position <= end.high_watermark
    may_be_refused = is_there and (poll.group or poll.at.topic == FADING)
    if operation.why == "offset_out_of_range" and not may_be_refused:
        facts = f"{poll.at} was read up to {poll.position}, which is out of range: {operation}"
        yield Violation(Kind.UNCOMMITTED, facts)
    elif operation.why == "corrupt":
        yield Violation(Kind.DAMAGED, str(operation))


def _check_steps(
    at: TopicPartition, position: int, offsets: list[int], who: str
) -> Iterator[Violation]:
    """Offsets are dense unless compaction takes some, and a poll gives what comes next."""
    for before, offset in pairwise([position - 1, *offsets]):
        if offset > before + 1 and at.topic != COMPACTED:
            yield Violation(Kind.SKIPPED, f"{at} {who} got {offset} after {before}")
        elif offset <= before:
            yield Violation(Kind.NON_MONOTONE, f"{at} {who} got {offset} after {before}")


def _check_origins(history: History, places: dict[_Log, _Places]) -> Iterator[Violation]:
    """Whatever was seen was sent, to that partition, and not refused."""
    sends = {value: each for each in history.of(Send) for value in each[1].values}
    for log in places.values():
        for offset, value in log.values.items():
            operation, send = sends.get(value, (None, None))
            if operation is None or send is None or send.at != log.at:
                yield Violation(Kind.PHANTOM, f"{log.at} has {value} at {offset}, from {operation}")
            elif operation.outcome is Outcome.FAILED:
                yield Violation(Kind.ABORTED, f"{log.at} has {value} at {offset}: {operation}")


def _check_order(history: History, final: Final) -> Iterator[Violation]:
    """What a producer numbers within an epoch stays in its order."""
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
                yield Violation(Kind.REORDERED, facts)
            last[producer] = sequence


def _check_sequences(history: History, final: Final, deleted: set[str]) -> Iterator[Violation]:
    """A producer that wants to be sure of each batch is not told that one was missing.

    But it may be told so of a batch that is there with a later one of its own: a broker that was
    started again knows, as Kafka's, only the last of each producer. What was there and is deleted
    by now nobody can tell.
    Nor does anybody know a later epoch of a producer than the producer itself.
    """
    unsure: set[tuple[int, int, TopicPartition]] = set()
    last = _last_sequences(history, final)
    starts = {end.at: end.log_start for end in final.partitions}
    next_offset: dict[tuple[int, int, TopicPartition], int] = {}
    for operation, send in history.of(Send):
        producer = (send.producer_id, send.producer_epoch, send.at)
        if isinstance(operation.got, Sent) and operation.got.base_offset != NO_OFFSET:
            next_offset[producer] = operation.got.base_offset + len(send.values)
        if operation.outcome is Outcome.OK or send.at.topic in deleted:
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
            yield Violation(Kind.FORGOTTEN, str(operation))


def _last_sequences(history: History, final: Final) -> dict[tuple[int, int, TopicPartition], int]:
    """The last number of each producer's that is in a log at the end."""
    there = {value for end in final.partitions for _, value in end.records}
    return {
        (send.producer_id, send.producer_epoch, send.at): send.sequence
        for _, send in history.of(Send)
        if not there.isdisjoint(send.values)
    }
