"""Checks of transactions, after Jepsen's for Kafka: atomic, isolated, exactly once.

Each check is one anomaly. `check_transactions` is the verdict on a run; transaction_cycles.py has
the dependencies between transactions.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import (
    NO_OFFSET,
    ClientOperation,
    OperationHistory,
    OperationOutcome,
    Sent,
)
from barnabas.sim.checkers.transaction_cycles import check_cycles
from barnabas.sim.checkers.transaction_operations import (
    OUTSIDE,
    Begin,
    CommittedPoll,
    CommittedPolled,
    EndTransaction,
    TransactionalCommit,
    TransactionalSend,
)
from barnabas.sim.checkers.violations import FinalState, FinalTransactions, Violation, ViolationKind

_OK, _FAILED = OperationOutcome.OK, OperationOutcome.FAILED


@dataclass(slots=True)
class Transaction:
    """One transaction of a history, with the sends that it made."""

    number: int
    begin: Begin
    is_committed: bool = False  # the commit was acknowledged
    may_commit: bool = False  # a commit was requested, and not refused
    commit_asked_at: float = inf
    sends: list[tuple[ClientOperation, TransactionalSend]] = field(default_factory=list)

    @property
    def is_aborted(self) -> bool:
        return not self.may_commit

    def __str__(self) -> str:
        name, producer, epoch = (
            self.begin.transactional_id,
            self.begin.producer_id,
            self.begin.producer_epoch,
        )
        return f"transaction {self.number} of {name} ({producer}, epoch {epoch})"


def transactions_of(history: OperationHistory) -> dict[int, Transaction]:
    """All transactions of a history, by number."""
    found = {
        operation.number: Transaction(operation.number, begin)
        for operation, begin in history.of(Begin)
    }
    for operation, send in history.of(TransactionalSend):
        found[send.transaction].sends.append((operation, send))
    for operation, end in history.of(EndTransaction):
        if end.commit and operation.outcome is not _FAILED:
            each = found[end.transaction]
            each.may_commit = True
            each.is_committed |= operation.outcome is _OK
            each.commit_asked_at = min(each.commit_asked_at, operation.began)
    return found


def check_transactions(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    """All checks of transactions."""
    known = transactions_of(history)
    writers = {v: each for each in known.values() for _, send in each.sends for v in send.values}
    yield from check_reads(history, final, writers)
    yield from check_offsets(history, final)
    yield from check_lost(known, final)
    yield from check_torn(known, final)
    yield from check_markers(known, final)
    yield from check_poll_order(history)
    yield from check_skipped(history, final)
    yield from check_send_order(known)
    yield from check_exactly_once(history, final, known)
    yield from check_cycles(history, {v: each.number for v, each in writers.items()})


def check_reads(
    history: OperationHistory, final: FinalState, writers: Mapping[int, Transaction]
) -> Iterator[Violation]:
    """read_committed returns only what a transaction wrote that had been asked to commit."""
    for operation, at, offset, value in _reads(history, final):
        writer = writers.get(value)
        ended = inf if operation is None else operation.ended
        who = "the end" if operation is None else operation.client
        facts = f"{at} offset {offset} value {value} read by {who}: {writer}"
        if writer is None:
            yield Violation(ViolationKind.PHANTOM, facts)
        elif operation is not None and _is_inside(operation, writer.number):
            yield Violation(ViolationKind.PRECOMMITTED, f"{facts}, by itself")
        elif writer.is_aborted:
            yield Violation(ViolationKind.ABORTED, facts)
        elif ended < writer.commit_asked_at:
            yield Violation(ViolationKind.PRECOMMITTED, facts)


def _reads(
    history: OperationHistory, final: FinalState
) -> Iterator[tuple[ClientOperation | None, TopicPartition, int, int]]:
    """Every record that read_committed returned: by whom, where, offset and value."""
    for operation, poll in history.of(CommittedPoll):
        if isinstance(operation.got, CommittedPolled):
            for offset, value in operation.got.records:
                yield operation, poll.at, offset, value
    for end in final.transactional:
        for offset, value in end.committed:
            yield None, end.at, offset, value


def _is_inside(operation: ClientOperation, transaction: int) -> bool:
    poll = operation.asked
    return isinstance(poll, CommittedPoll) and poll.transaction == transaction


def check_offsets(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    """Producers, readers and logs agree on the value at each offset, and on its only offset."""
    values: dict[tuple[TopicPartition, int], int] = {}
    offsets: dict[tuple[TopicPartition, int], int] = {}
    for at, offset, value in _claims(history, final):
        if values.setdefault((at, offset), value) != value:
            facts = f"{at} offset {offset} has value {values[at, offset]}, and {value}"
            yield Violation(ViolationKind.INCONSISTENT, facts)
        if offsets.setdefault((at, value), offset) != offset:
            facts = f"{at} value {value} is at offset {offsets[at, value]}, and at {offset}"
            yield Violation(ViolationKind.DUPLICATE, facts)


def _claims(
    history: OperationHistory, final: FinalState
) -> Iterator[tuple[TopicPartition, int, int]]:
    for operation, send in history.of(TransactionalSend):
        if isinstance(operation.got, Sent) and operation.got.base_offset != NO_OFFSET:
            for offset, value in enumerate(send.values, operation.got.base_offset):
                yield send.at, offset, value
    for _, at, offset, value in _reads(history, final):
        yield at, offset, value
    for end in final.transactional:
        for batch in end.log:
            for offset, value in enumerate(batch.values, batch.offset):
                yield end.at, offset, value


def _committed_values(final: FinalState) -> dict[TopicPartition, set[int]]:
    return {end.at: {value for _, value in end.committed} for end in final.transactional}


def check_lost(known: Mapping[int, Transaction], final: FinalState) -> Iterator[Violation]:
    """The records of a committed transaction are there at the end. Watches TXN-11."""
    there = _committed_values(final)
    for each in known.values():
        for operation, send in each.sends:
            lost = [v for v in send.values if v not in there.get(send.at, ())]
            if each.is_committed and lost and operation.outcome is _OK:
                yield Violation(ViolationKind.LOST, f"{lost} of {each}: {operation}")


def check_torn(known: Mapping[int, Transaction], final: FinalState) -> Iterator[Violation]:
    """All that a transaction wrote is visible, or nothing."""
    there = _committed_values(final)
    for each in known.values():
        acknowledged = [
            value in there.get(send.at, ())
            for operation, send in each.sends
            if operation.outcome is _OK
            for value in send.values
        ]
        if any(acknowledged) and not all(acknowledged):
            facts = f"{sum(acknowledged)} of {len(acknowledged)} records are visible: {each}"
            yield Violation(ViolationKind.TORN, facts)


def check_markers(known: Mapping[int, Transaction], final: FinalState) -> Iterator[Violation]:
    """A transaction is committed if and only if every marker of it is COMMIT. Watches TXN-10."""
    writers = {v: each for each in known.values() for _, send in each.sends for v in send.values}
    markers: dict[int, dict[bool, TopicPartition]] = defaultdict(dict)
    for end in final.transactional:
        for number, marker in _ends_in(end, writers):
            if marker is None:
                yield Violation(ViolationKind.HANGING, f"{end.at}: {known[number]}")
            else:
                markers[number].setdefault(marker, end.at)
    for number, found in markers.items():
        each = known[number]
        if len(found) > 1:
            yield Violation(ViolationKind.TORN, f"COMMIT and ABORT in {found}: {each}")
        if (each.is_committed and False in found) or (each.is_aborted and True in found):
            what = "COMMIT" if True in found else "ABORT"
            facts = f"{what} in {next(iter(found.values()))}: {each}"
            yield Violation(ViolationKind.WRONG_MARKER, facts)


def _ends_in(
    end: FinalTransactions, writers: Mapping[int, Transaction]
) -> Iterator[tuple[int, bool | None]]:
    """The transactions in a log, each with the next marker of its producer, or None.

    Watches TXN-13.
    """
    open_ones: dict[int, dict[int, None]] = defaultdict(dict)
    for batch in end.log:
        if batch.marker is None:
            for value in batch.values:
                if value in writers:
                    open_ones[batch.producer_id][writers[value].number] = None
        else:
            for number in open_ones.pop(batch.producer_id, {}):
                yield number, batch.marker
    for numbers in open_ones.values():
        for number in numbers:
            yield number, None


def check_poll_order(history: OperationHistory) -> Iterator[Violation]:
    """Inside a transaction, and inside a poll, offsets only rise and no poll goes back."""
    positions: dict[tuple[int, TopicPartition], int] = {}
    for operation, poll in history.of(CommittedPoll):
        if not isinstance(operation.got, CommittedPolled):
            continue
        offsets = [poll.position - 1, *(offset for offset, _ in operation.got.records)]
        if any(after <= before for before, after in pairwise(offsets)):
            yield Violation(ViolationKind.INVERTED, str(operation))
        if poll.transaction == OUTSIDE:
            continue
        key = (poll.transaction, poll.at)
        expected = positions.get(key, poll.position)
        if poll.position != expected:
            kind = ViolationKind.INVERTED if poll.position < expected else ViolationKind.SKIPPED
            yield Violation(kind, f"{poll.position} after {expected}: {operation}")
        positions[key] = operation.got.next_position


def check_skipped(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    """A poll returns every committed record of the offsets that it passes."""
    committed = {end.at: end.committed for end in final.transactional}
    for operation, poll in history.of(CommittedPoll):
        if not isinstance(operation.got, CommittedPolled):
            continue
        got = {offset for offset, _ in operation.got.records}
        passed = range(poll.position, operation.got.next_position)
        missed = [n for n, _ in committed.get(poll.at, ()) if n in passed and n not in got]
        if missed:
            yield Violation(ViolationKind.SKIPPED, f"offsets {missed[:5]}: {operation}")


def check_send_order(known: Mapping[int, Transaction]) -> Iterator[Violation]:
    """The sends of a transaction to one partition have rising offsets."""
    for each in known.values():
        last: dict[TopicPartition, int] = {}
        for operation, send in each.sends:
            if not isinstance(operation.got, Sent) or operation.got.base_offset == NO_OFFSET:
                continue
            if operation.got.base_offset <= last.get(send.at, -1):
                yield Violation(ViolationKind.WRITE_INVERTED, f"{each}: {operation}")
            last[send.at] = operation.got.base_offset


def check_exactly_once(
    history: OperationHistory, final: FinalState, known: Mapping[int, Transaction]
) -> Iterator[Violation]:
    """Each consumed record below the committed offset has exactly one output, all others none.

    Watches TXN-12.
    """
    if not any(True for _ in history.of(TransactionalCommit)):
        return
    consumed = {at: n for offsets in final.offsets.values() for at, n in offsets.items()}
    outputs: dict[int, int] = defaultdict(int)
    visible = _committed_values(final)
    for each in known.values():
        for _, send in each.sends:
            for value, source in zip(send.values, send.sources, strict=False):
                outputs[source] += value in visible.get(send.at, ())
    for end in final.transactional:
        for offset, value in end.committed if end.at in consumed else ():
            expected = int(offset < consumed[end.at])
            if outputs[value] != expected:
                facts = f"{end.at} offset {offset} value {value}, consumed to {consumed[end.at]}"
                yield Violation(ViolationKind.NOT_ONCE, f"{facts}: {outputs[value]} outputs")
