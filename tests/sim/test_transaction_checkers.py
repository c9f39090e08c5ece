"""Checkers of transactions on handmade histories: each finds its anomaly."""

from collections.abc import Sequence

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import OperationHistory, OperationOutcome, Sent
from barnabas.sim.checkers.transaction_checkers import check_transactions
from barnabas.sim.checkers.transaction_cycles import Dependency, dependencies, find_cycle
from barnabas.sim.checkers.transaction_operations import (
    OUTSIDE,
    Begin,
    CommittedPoll,
    CommittedPolled,
    EndTransaction,
    TransactionalCommit,
    TransactionalSend,
)
from barnabas.sim.checkers.violations import (
    FinalState,
    FinalTransactions,
    LoggedBatch,
    ViolationKind,
)

OK, FAILED, UNKNOWN = OperationOutcome.OK, OperationOutcome.FAILED, OperationOutcome.UNKNOWN
IN, OUT, OTHER = (
    TopicPartition("payments", 0),
    TopicPartition("balances", 0),
    TopicPartition("payments", 1),
)
GROUP = "accounts"


class Ledger:
    """A history of transactions and the logs that they leave; tests write them as they like."""

    def __init__(self) -> None:
        self._time = 0.0
        self.history = OperationHistory(self._tick)
        self.logs: dict[TopicPartition, list[LoggedBatch]] = {}
        self.committed: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.offsets: dict[TopicPartition, int] = {}

    def _tick(self) -> float:
        self._time += 1.0
        return self._time

    def begin(self, name: str = "a", producer: int = 1, epoch: int = 0) -> int:
        operation = self.history.begin(name, Begin(name, producer, epoch))
        self.history.end(operation, OK)
        return operation.number

    def send(
        self,
        transaction: int,
        at: TopicPartition,
        offset: int,
        values: Sequence[int],
        sources: Sequence[int] = (),
        outcome: OperationOutcome = OK,
    ) -> None:
        asked = TransactionalSend(transaction, at, tuple(values), tuple(sources))
        self.history.end(self.history.begin("a", asked), outcome, Sent(offset))

    def poll(
        self,
        at: TopicPartition,
        position: int,
        records: Sequence[tuple[int, int]],
        next_position: int,
        transaction: int = OUTSIDE,
    ) -> None:
        operation = self.history.begin("reader", CommittedPoll(transaction, at, position))
        self.history.end(operation, OK, CommittedPolled(tuple(records), next_position))

    def consume(self, transaction: int, at: TopicPartition, offset: int) -> None:
        asked = TransactionalCommit(transaction, GROUP, ((at, offset),))
        self.history.end(self.history.begin("a", asked), OK)

    def end(self, transaction: int, *, commit: bool = True, outcome: OperationOutcome = OK) -> None:
        operation = self.history.begin("a", EndTransaction(transaction, commit))
        self.history.end(operation, outcome)

    def log(
        self, at: TopicPartition, offset: int, values: Sequence[int], producer: int = 1
    ) -> None:
        batch = LoggedBatch(offset, producer, 0, tuple(values))
        self.logs.setdefault(at, []).append(batch)

    def mark(self, at: TopicPartition, offset: int, commit: bool = True, producer: int = 1) -> None:
        self.logs.setdefault(at, []).append(LoggedBatch(offset, producer, 0, (), commit))

    def kinds(self) -> set[ViolationKind]:
        places = dict.fromkeys([*self.logs, *self.committed])
        final = FinalState(
            transactional=tuple(
                FinalTransactions(
                    at, tuple(self.logs.get(at, ())), tuple(self.committed.get(at, ()))
                )
                for at in places
            ),
            offsets={GROUP: self.offsets},
        )
        return {each.kind for each in check_transactions(self.history, final)}


@pytest.fixture
def ledger() -> Ledger:
    """A committed payment of two partitions, an aborted one, and the balances made of the first."""
    ledger = Ledger()
    first = ledger.begin()
    ledger.send(first, IN, 0, [1, 2])
    ledger.send(first, OTHER, 0, [3])
    ledger.end(first)
    second = ledger.begin()
    ledger.send(second, IN, 3, [4])
    ledger.end(second, commit=False)
    written: dict[TopicPartition, list[tuple[int, list[int] | bool]]] = {
        IN: [(0, [1, 2]), (2, True), (3, [4]), (4, False)],
        OTHER: [(0, [3]), (1, True)],
    }
    for at, batches in written.items():
        for offset, what in batches:
            if isinstance(what, bool):
                ledger.mark(at, offset, what)
            else:
                ledger.log(at, offset, what)
    ledger.committed = {IN: [(0, 1), (1, 2)], OTHER: [(0, 3)]}
    copy = ledger.begin("copier", 2)
    ledger.poll(IN, 0, [(0, 1), (1, 2)], 3, copy)
    ledger.send(copy, OUT, 0, [11, 12], [1, 2])
    ledger.consume(copy, IN, 3)
    ledger.end(copy)
    ledger.log(OUT, 0, [11, 12], 2)
    ledger.mark(OUT, 2, producer=2)
    ledger.committed[OUT] = [(0, 11), (1, 12)]
    ledger.offsets = {IN: 3}
    return ledger


def test_a_correct_history_passes(ledger: Ledger) -> None:
    ledger.poll(IN, 0, [(0, 1), (1, 2)], 5)
    assert ledger.kinds() == set()


def test_an_aborted_read_is_found(ledger: Ledger) -> None:
    ledger.poll(IN, 3, [(3, 4)], 5)
    assert ledger.kinds() == {ViolationKind.ABORTED}


def test_a_read_of_a_value_that_nobody_wrote_is_found(ledger: Ledger) -> None:
    ledger.poll(IN, 5, [(5, 99)], 6)
    assert ledger.kinds() == {ViolationKind.PHANTOM}


def test_a_read_before_the_commit_was_requested_is_found(ledger: Ledger) -> None:
    late = ledger.begin()
    ledger.send(late, IN, 5, [5])
    ledger.poll(IN, 5, [(5, 5)], 6)
    ledger.end(late)
    ledger.log(IN, 5, [5])
    ledger.mark(IN, 6)
    ledger.committed[IN].append((5, 5))
    assert ledger.kinds() == {ViolationKind.PRECOMMITTED}


def test_a_transaction_that_reads_its_own_write_is_found(ledger: Ledger) -> None:
    own = ledger.begin()
    ledger.send(own, IN, 5, [5])
    ledger.end(own)
    ledger.poll(IN, 5, [(5, 5)], 6, own)
    ledger.log(IN, 5, [5])
    ledger.mark(IN, 6)
    ledger.committed[IN].append((5, 5))
    assert ledger.kinds() == {ViolationKind.PRECOMMITTED}


def test_a_write_lost_whole_is_found(ledger: Ledger) -> None:
    lost = ledger.begin()
    ledger.send(lost, IN, 5, [5])
    ledger.end(lost)
    assert ledger.kinds() == {ViolationKind.LOST}


def test_a_torn_transaction_is_found_also_if_its_outcome_is_unknown(ledger: Ledger) -> None:
    torn = ledger.begin()
    ledger.send(torn, IN, 5, [5])
    ledger.send(torn, OTHER, 2, [6])
    ledger.end(torn, outcome=UNKNOWN)
    ledger.log(IN, 5, [5])
    ledger.mark(IN, 6)
    ledger.log(OTHER, 2, [6])
    ledger.mark(OTHER, 3, commit=False)
    ledger.committed[IN].append((5, 5))
    assert ledger.kinds() == {ViolationKind.TORN}


@pytest.mark.parametrize("committed", [True, False])
def test_an_undecided_transaction_may_be_there_or_not(ledger: Ledger, committed: bool) -> None:
    open_one = ledger.begin()
    ledger.send(open_one, IN, 5, [5])
    ledger.end(open_one, outcome=UNKNOWN)
    ledger.log(IN, 5, [5])
    ledger.mark(IN, 6, commit=committed)
    if committed:
        ledger.committed[IN].append((5, 5))
    assert ledger.kinds() == set()


def test_a_marker_against_the_outcome_is_found(ledger: Ledger) -> None:
    aborted = ledger.begin()
    ledger.send(aborted, IN, 5, [5])
    ledger.end(aborted, commit=False)
    ledger.log(IN, 5, [5])
    ledger.mark(IN, 6, commit=True)
    assert ledger.kinds() == {ViolationKind.WRONG_MARKER}


def test_a_transaction_without_a_marker_is_found(ledger: Ledger) -> None:
    hanging = ledger.begin()
    ledger.send(hanging, IN, 5, [5])
    ledger.log(IN, 5, [5])
    assert ledger.kinds() == {ViolationKind.HANGING}


def test_a_commit_that_was_refused_leaves_the_transaction_aborted(ledger: Ledger) -> None:
    refused = ledger.begin()
    ledger.send(refused, IN, 5, [5])
    ledger.end(refused, outcome=FAILED)
    ledger.log(IN, 5, [5])
    ledger.mark(IN, 6)
    ledger.committed[IN].append((5, 5))
    assert ledger.kinds() == {ViolationKind.ABORTED, ViolationKind.WRONG_MARKER}


def test_an_offset_with_two_values_and_a_value_with_two_offsets_are_found(ledger: Ledger) -> None:
    ledger.poll(IN, 0, [(0, 2)], 1)
    assert ledger.kinds() == {ViolationKind.INCONSISTENT, ViolationKind.DUPLICATE}


def test_a_skipped_record_is_found(ledger: Ledger) -> None:
    ledger.poll(IN, 0, [(1, 2)], 3)
    assert ledger.kinds() == {ViolationKind.SKIPPED}


def test_a_poll_that_goes_back_inside_a_transaction_is_found(ledger: Ledger) -> None:
    back = ledger.begin("other", 3)
    ledger.poll(IN, 0, [(0, 1), (1, 2)], 3, back)
    ledger.poll(IN, 1, [(1, 2)], 3, back)
    assert ledger.kinds() == {ViolationKind.INVERTED}


def test_a_poll_that_leaps_inside_a_transaction_is_found(ledger: Ledger) -> None:
    leaps = ledger.begin("other", 3)
    ledger.poll(IN, 0, [(0, 1)], 1, leaps)
    ledger.poll(IN, 3, [], 5, leaps)
    assert ledger.kinds() == {ViolationKind.SKIPPED}


def test_offsets_that_fall_inside_a_poll_are_found(ledger: Ledger) -> None:
    ledger.poll(IN, 0, [(1, 2), (0, 1)], 3)
    assert ledger.kinds() == {ViolationKind.INVERTED}


def test_sends_whose_offsets_fall_are_found(ledger: Ledger) -> None:
    inverted = ledger.begin()
    ledger.send(inverted, IN, 6, [6])
    ledger.send(inverted, IN, 5, [5])
    ledger.end(inverted)
    ledger.log(IN, 5, [5])
    ledger.log(IN, 6, [6])
    ledger.mark(IN, 7)
    ledger.committed[IN] += [(5, 5), (6, 6)]
    assert ledger.kinds() == {ViolationKind.WRITE_INVERTED}


def test_a_consumed_record_without_output_is_found(ledger: Ledger) -> None:
    ledger.offsets = {IN: 0}
    assert ledger.kinds() == {ViolationKind.NOT_ONCE}


def test_a_record_that_was_processed_twice_is_found(ledger: Ledger) -> None:
    again = ledger.begin("copier", 2, 1)
    ledger.poll(IN, 0, [(0, 1), (1, 2)], 3, again)
    ledger.send(again, OUT, 3, [21, 22], [1, 2])
    ledger.consume(again, IN, 3)
    ledger.end(again)
    ledger.log(OUT, 3, [21, 22], 2)
    ledger.mark(OUT, 5, producer=2)
    ledger.committed[OUT] += [(3, 21), (4, 22)]
    assert ledger.kinds() == {ViolationKind.NOT_ONCE}


def _each_reads_the_other(ledger: Ledger) -> tuple[int, int]:
    one, two = ledger.begin("one", 5), ledger.begin("two", 6)
    ledger.send(one, IN, 5, [5])
    ledger.send(two, OTHER, 2, [6])
    ledger.end(one, outcome=UNKNOWN)
    ledger.end(two, outcome=UNKNOWN)
    ledger.poll(IN, 5, [(5, 5)], 7, two)
    ledger.poll(OTHER, 2, [(2, 6)], 4, one)
    ledger.log(IN, 5, [5], 5)
    ledger.mark(IN, 6, producer=5)
    ledger.log(OTHER, 2, [6], 6)
    ledger.mark(OTHER, 3, producer=6)
    ledger.committed[IN].append((5, 5))
    ledger.committed[OTHER].append((2, 6))
    return one, two


def test_transactions_that_read_each_other_are_a_write_read_cycle(ledger: Ledger) -> None:
    _each_reads_the_other(ledger)
    assert ledger.kinds() == {ViolationKind.CYCLE}


def test_interleaved_writes_of_two_producers_are_a_write_write_cycle_that_kafka_allows(
    ledger: Ledger,
) -> None:
    one, two = ledger.begin("one", 5), ledger.begin("two", 6)
    ledger.send(one, IN, 5, [5])
    ledger.send(two, IN, 6, [6])
    ledger.send(two, OTHER, 2, [7])
    ledger.send(one, OTHER, 3, [8])
    for each in (one, two):
        ledger.end(each, outcome=UNKNOWN)
    graph = dependencies(ledger.history, {}, (Dependency.WRITE_WRITE,))
    assert {(one, two), (two, one)} <= {(a, b) for a, _, b in find_cycle(graph)}
    assert ledger.kinds() == set()


def test_writes_of_one_producer_in_the_wrong_order_are_a_cycle(ledger: Ledger) -> None:
    one, two = ledger.begin("one", 5), ledger.begin("one", 5)
    ledger.send(one, IN, 7, [5])
    ledger.send(two, IN, 5, [6])
    for each in (one, two):
        ledger.end(each, outcome=UNKNOWN)
    assert ledger.kinds() == {ViolationKind.CYCLE}


def test_a_producer_that_reads_to_before_its_own_last_write_is_a_read_write_cycle(
    ledger: Ledger,
) -> None:
    one, two = ledger.begin("one", 5), ledger.begin("one", 5)
    ledger.send(one, IN, 5, [5])
    ledger.poll(IN, 5, [], 5, two)
    for each in (one, two):
        ledger.end(each, outcome=UNKNOWN)
    assert ledger.kinds() == {ViolationKind.CYCLE}


def test_two_that_each_read_to_before_the_others_write_are_a_read_write_cycle(
    ledger: Ledger,
) -> None:
    one, two = ledger.begin("one", 5), ledger.begin("two", 6)
    ledger.poll(IN, 5, [], 5, one)
    ledger.poll(OTHER, 2, [], 2, two)
    ledger.send(one, OTHER, 2, [5])
    ledger.send(two, IN, 5, [6])
    graph = dependencies(ledger.history, {}, (Dependency.READ_WRITE,))
    assert len(find_cycle(graph)) == 2
