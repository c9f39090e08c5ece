"""Any interleaving of producers, timeouts, failed writes, markers and failovers.

Checked after every step: one change is pending at most, epochs of a producer id never go back, the
outcome of a transaction never changes, and the next coordinator knows what this one knew.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.base.errors import ErrorCode
from barnabas.transactions.shard import ABORT_LATE
from barnabas.transactions.transaction_messages import Producer
from barnabas.transactions.transaction_state import TransactionState
from tests.transactions.driver import ID, ORDERS, STOCK, Driver


class TransactionHistories(RuleBasedStateMachine):
    @initialize(version=st.sampled_from([0, 2]))
    def begin(self, version: int) -> None:
        self.driver = Driver(version)
        self.producers = [Producer(4000, 0)]
        self.epochs: dict[int, int] = {}
        # The ends that were answered NONE, by producer epoch.
        self.promised: dict[Producer, bool] = {}
        self.outcomes: dict[Producer, bool] = {}

    @rule()
    def a_producer_begins(self) -> None:
        reply = self.driver.init()
        if reply.error is ErrorCode.none:
            self.producers.append(reply.producer)

    @rule(which=st.integers(0, 3))
    def a_producer_raises_its_epoch(self, which: int) -> None:
        reply = self.driver.init(self.producers[-1 - which % len(self.producers)])
        if reply.error is ErrorCode.none:
            self.producers.append(reply.producer)

    @rule(which=st.integers(0, 3), other=st.booleans())
    def a_producer_adds_a_partition(self, which: int, other: bool) -> None:
        producer = self.producers[-1 - which % len(self.producers)]
        self.driver.add(producer, STOCK if other else ORDERS)

    @rule(which=st.integers(0, 3), is_commit=st.booleans())
    def a_producer_ends(self, which: int, is_commit: bool) -> None:
        producer = self.producers[-1 - which % len(self.producers)]
        prepared = len(self.driver.markers)
        reply = self.driver.end(producer, is_commit)
        if reply.error is not ErrorCode.none:
            return
        if len(self.driver.markers) > prepared and self.driver.version:
            assert self.promised.setdefault(producer, is_commit) == is_commit
        if reply.producer != Producer():
            self.producers.append(reply.producer)

    @rule()
    def the_markers_are_written(self) -> None:
        self.driver.complete()

    @rule(ms=st.integers(1, 90_000))
    def time_passes(self, ms: int) -> None:
        self.driver.now_ms += ms
        self.driver.settle(self.driver.shard.on_timer(ABORT_LATE, self.driver.now()))

    @rule(fails=st.booleans())
    def the_log_fails_or_recovers(self, fails: bool) -> None:
        self.driver.fails = ErrorCode.coordinator_not_available if fails else None

    @rule()
    def the_coordinator_fails(self) -> None:
        self.driver.fails = None
        known = self.driver.shard.get(ID)
        self.driver.fail_over()
        loaded = self.driver.shard.get(ID)
        if known is None or loaded is None:
            assert known is loaded
            return
        forgotten = known._replace(last_producer_epoch=-1)
        if not self.driver.version:
            forgotten = forgotten._replace(previous_producer_id=-1)
        assert loaded == forgotten

    @invariant()
    def nothing_is_pending_when_all_is_settled(self) -> None:
        assert not self.driver.shard._pending

    @invariant()
    def epochs_never_go_back(self) -> None:
        metadata = self.driver.shard.get(ID)
        if metadata is not None:
            last = self.epochs.get(metadata.producer_id, -1)
            assert metadata.producer_epoch >= last
            self.epochs[metadata.producer_id] = metadata.producer_epoch

    @invariant()
    def the_outcome_of_an_epoch_never_changes_with_version_2(self) -> None:
        if self.driver.version:
            for event in self.driver.markers:
                ended = Producer(event.metadata.producer_id, event.metadata.producer_epoch)
                is_commit = event.metadata.state is TransactionState.PREPARE_COMMIT
                assert self.outcomes.setdefault(ended, is_commit) == is_commit


TestTransactionHistories = TransactionHistories.TestCase
TestTransactionHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
