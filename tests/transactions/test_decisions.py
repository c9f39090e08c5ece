"""The decisions of a transaction coordinator, request by request."""

import pytest

from barnabas.base.errors import ErrorCode, LawBroken
from barnabas.coordinator.result import ArmTimer
from barnabas.transactions.shard import ABORT_LATE, EXPIRE_IDS
from barnabas.transactions.transaction_messages import AddPartitions, InitProducer, Producer
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.transactions.transaction_state import TransactionState
from tests.transactions.driver import ID, ORDERS, SETTINGS, STOCK, Driver

_S = TransactionState
BOTH = pytest.mark.parametrize("version", [0, 2])


# -- InitProducerId ----------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [-1, 0, SETTINGS.max_timeout_ms + 1])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    """T9"""
    assert Driver().init(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout


@BOTH
def test_a_new_id_begins_at_epoch_0_and_each_producer_after_has_the_next(version: int) -> None:
    """T10"""
    driver = Driver(version)
    assert driver.begun() == Producer(4000, 0)
    assert driver.begun() == Producer(4000, 1)
    assert driver.metadata().last_producer_epoch == -1


def test_a_producer_that_brings_its_epoch_gets_the_next_and_the_same_when_it_asks_again() -> None:
    """T11"""
    driver = Driver()
    first = driver.begun()
    second = driver.init(first)
    assert second.producer == Producer(4000, 1)
    assert driver.init(first) == second
    assert driver.init(first) == second
    assert driver.init(Producer(4000, 7)).error is ErrorCode.producer_fenced


def test_a_producer_id_of_another_producer_is_fenced() -> None:
    """T11"""
    driver = Driver()
    driver.begun()
    assert driver.init(Producer(17, 0)).error is ErrorCode.producer_fenced


def test_a_producer_whose_id_is_forgotten_gets_a_new_one_whatever_it_brings() -> None:
    """T11"""
    assert Driver().init(Producer(17, 5)).producer == Producer(4000, 0)


def test_a_retry_across_a_failover_is_fenced_as_in_kafka() -> None:
    """T15"""
    driver = Driver()
    first = driver.begun()
    driver.init(first)
    driver.fail_over()
    assert driver.init(first).error is ErrorCode.producer_fenced


def test_epochs_end_before_the_one_of_fencing_and_another_producer_id_follows() -> None:
    """T12"""
    driver = Driver()
    driver.begun()
    driver.put(driver.metadata()._replace(producer_epoch=32765))
    assert driver.begun() == Producer(4000, 32766)
    exhausted = Producer(4000, 32766)
    assert driver.init(exhausted).producer == Producer(4001, 0)
    # The answer was lost: the last producer id is known, with its last epoch.
    assert driver.init(exhausted).producer == Producer(4001, 0)
    assert driver.init(Producer(4000, 3)).error is ErrorCode.producer_fenced


@BOTH
def test_a_producer_that_begins_fences_and_aborts_the_open_transaction(version: int) -> None:
    """T13"""
    driver = Driver(version)
    old = driver.begun()
    driver.add(old)
    assert driver.init().error is ErrorCode.concurrent_transactions
    assert driver.metadata().state is _S.PREPARE_ABORT
    assert driver.metadata().producer_epoch == old.epoch + 1
    assert driver.init().error is ErrorCode.concurrent_transactions
    driver.complete()
    assert driver.begun() == Producer(4000, old.epoch + 2)
    assert driver.add(old) is ErrorCode.producer_fenced
    assert driver.end(old).error is ErrorCode.producer_fenced


def test_a_fenced_producer_gets_no_epoch_from_a_transaction_that_raised_none() -> None:
    """T13, across an upgrade to version 2"""
    driver = Driver(0)
    fenced, producer = driver.begun(), driver.begun()
    driver.add(producer)
    assert driver.end(producer).error is ErrorCode.none
    driver.complete()
    driver.version = 2
    assert driver.end(fenced).error is ErrorCode.producer_fenced


@BOTH
def test_a_fence_that_cannot_be_written_uses_up_no_epoch(version: int) -> None:
    """T14"""
    driver = Driver(version)
    old = driver.begun()
    driver.add(old)
    driver.fails = ErrorCode.coordinator_not_available
    for _ in range(5):
        assert driver.init().error is ErrorCode.coordinator_not_available
    driver.fails = None
    assert driver.init().error is ErrorCode.concurrent_transactions
    assert driver.metadata().producer_epoch == old.epoch + 1


def test_the_last_epoch_can_be_fenced() -> None:
    """T12"""
    for version in (0, 2):
        driver = Driver(version)
        driver.begun()
        driver.put(driver.metadata()._replace(producer_epoch=32766))
        last = Producer(4000, 32766)
        assert driver.add(last) is ErrorCode.none
        assert driver.init().error is ErrorCode.concurrent_transactions
        driver.complete()
        # The epoch of the fence is given to nobody, not even to one who asks again.
        assert driver.end(last, is_commit=False).error is ErrorCode.producer_fenced
        assert driver.init(last).error is ErrorCode.producer_fenced
        assert driver.begun() == Producer(4001, 0)


# -- pending changes ---------------------------------------------------------


def test_an_id_has_one_pending_change_and_changes_when_it_is_committed() -> None:
    """T5"""
    driver = Driver()
    producer = driver.begun()
    request = AddPartitions(ID, producer, frozenset({ORDERS}))
    pending = driver.shard.add(request, driver.now())
    assert driver.metadata().state is _S.EMPTY
    assert driver.add(producer, STOCK) is ErrorCode.concurrent_transactions
    assert driver.end(producer).error is ErrorCode.concurrent_transactions
    assert driver.init().error is ErrorCode.concurrent_transactions
    driver.settle(pending)
    assert driver.metadata().partitions == {ORDERS}
    assert driver.add(producer, STOCK) is ErrorCode.none


def test_a_change_that_failed_leaves_nothing_behind() -> None:
    """T6"""
    driver = Driver()
    producer = driver.begun()
    driver.fails = ErrorCode.coordinator_not_available
    assert driver.add(producer) is ErrorCode.coordinator_not_available
    assert driver.init().error is ErrorCode.coordinator_not_available
    driver.fails = None
    assert driver.metadata().state is _S.EMPTY
    assert driver.add(producer) is ErrorCode.none
    driver.fails = ErrorCode.not_coordinator
    assert driver.end(producer).error is ErrorCode.not_coordinator
    assert not driver.markers
    driver.fails = None
    assert driver.end(producer).error is ErrorCode.none


def test_a_new_id_whose_first_record_failed_is_unknown() -> None:
    """T6"""
    driver = Driver()
    driver.fails = ErrorCode.coordinator_not_available
    assert driver.init().error is ErrorCode.coordinator_not_available
    assert (len(driver.shard), driver.shard.get(ID)) == (0, None)


def test_a_second_pending_change_breaks_a_law() -> None:
    driver = Driver()
    metadata = driver.begun() and driver.metadata()
    driver.shard._begin(metadata.with_partitions(frozenset({ORDERS}), 1, 0))
    with pytest.raises(LawBroken, match="TXN-2"):
        driver.shard._begin(metadata.with_partitions(frozenset({STOCK}), 1, 0))


def test_an_epoch_that_goes_back_breaks_a_law() -> None:
    driver = Driver()
    driver.begun()
    before = driver.metadata()
    driver.put(before._replace(producer_epoch=5))
    record = driver.shard._begin(before.with_partitions(frozenset({ORDERS}), 1, 0))
    with pytest.raises(LawBroken, match="TXN-3"):
        driver.shard.replay(record)


# -- partitions --------------------------------------------------------------


@BOTH
def test_the_checks_of_add_partitions_have_kafkas_order(version: int) -> None:
    """T17"""
    driver = Driver(version)
    assert driver.add(Producer(1, 1)) is ErrorCode.invalid_producer_id_mapping
    producer = driver.begun()
    assert driver.add(Producer(1, 1)) is ErrorCode.invalid_producer_id_mapping
    assert driver.add(Producer(4000, 1)) is ErrorCode.producer_fenced
    assert driver.add(producer) is ErrorCode.none
    written = len(driver.log)
    assert driver.add(producer) is ErrorCode.none
    assert len(driver.log) == written, "a subset is answered at once"
    reply = driver.end(producer)
    assert driver.add(producer, STOCK) is (
        ErrorCode.producer_fenced if version else ErrorCode.concurrent_transactions
    )
    next_one = reply.producer if version else producer
    assert driver.add(next_one) is ErrorCode.concurrent_transactions


def test_verification_finds_what_is_not_in_the_transaction_also_while_a_change_is_pending() -> None:
    """T18"""
    driver = Driver()
    producer = driver.begun()
    assert driver.verify(producer, ORDERS) == [ErrorCode.transaction_abortable]
    driver.add(producer)
    driver.shard.add(AddPartitions(ID, producer, frozenset({STOCK})), driver.now())
    assert driver.verify(producer, ORDERS, STOCK) == [
        ErrorCode.none,
        ErrorCode.transaction_abortable,
    ]
    assert driver.verify(Producer(1, 0), ORDERS) == [ErrorCode.invalid_producer_id_mapping]
    assert driver.verify(Producer(4000, 9), ORDERS) == [ErrorCode.producer_fenced]


def test_verification_is_concurrent_while_markers_are_written() -> None:
    """T18"""
    driver = Driver()
    producer = driver.begun()
    driver.add(producer)
    driver.end(producer)
    assert driver.verify(producer, ORDERS) == [ErrorCode.concurrent_transactions]


# -- EndTxn ------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_is_prepared_then_completed_and_a_retry_gets_the_same_answer(
    is_commit: bool,
) -> None:
    """T20"""
    driver = Driver()
    assert driver.end(Producer(1, 1)).error is ErrorCode.invalid_producer_id_mapping
    producer = driver.begun()
    assert driver.end(producer, is_commit).error is ErrorCode.invalid_txn_state
    driver.add(producer)
    assert driver.end(Producer(4000, 3), is_commit).error is ErrorCode.producer_fenced
    assert driver.end(producer, is_commit).error is ErrorCode.none
    assert driver.metadata().state is (_S.PREPARE_COMMIT if is_commit else _S.PREPARE_ABORT)
    assert driver.end(producer, is_commit).error is ErrorCode.concurrent_transactions
    assert driver.end(producer, not is_commit).error is ErrorCode.invalid_txn_state
    assert driver.complete() is ErrorCode.none
    assert driver.metadata().state is (_S.COMPLETE_COMMIT if is_commit else _S.COMPLETE_ABORT)
    assert driver.end(producer, is_commit).error is ErrorCode.none
    assert driver.end(producer, not is_commit).error is ErrorCode.invalid_txn_state


@pytest.mark.parametrize("is_commit", [True, False])
def test_version_2_raises_the_epoch_with_each_transaction(is_commit: bool) -> None:
    """T20, KIP-890"""
    driver = Driver(2)
    first = driver.begun()
    driver.add(first)
    reply = driver.end(first, is_commit)
    assert reply.producer == Producer(4000, 1)
    assert driver.markers[0].metadata.producer_epoch == 1
    assert driver.end(first, is_commit).error is ErrorCode.concurrent_transactions
    driver.complete()
    assert driver.end(first, is_commit) == reply, "the answer was lost"
    assert driver.end(first, not is_commit).error is ErrorCode.invalid_txn_state
    driver.add(reply.producer)
    # A delayed request of the first transaction cannot touch the second.
    assert driver.end(first, is_commit).error is ErrorCode.producer_fenced
    assert driver.end(first, not is_commit).error is ErrorCode.producer_fenced
    assert driver.metadata().state is _S.ONGOING


def test_with_version_0_a_delayed_end_hits_a_later_transaction() -> None:
    """The hole of Kafka 3.9 that version 2 closes."""
    driver = Driver(0)
    producer = driver.begun()
    for _ in range(2):
        driver.add(producer)
        assert driver.end(producer).error is ErrorCode.none
        driver.complete()
    driver.add(producer)
    assert driver.end(producer, is_commit=False).error is ErrorCode.none, "sent long ago"
    assert driver.metadata().state is _S.PREPARE_ABORT


@pytest.mark.parametrize(
    ("state", "is_commit", "retry", "current"),
    [
        (_S.EMPTY, False, "producer_fenced", "new epoch"),
        (_S.EMPTY, True, "producer_fenced", "invalid_txn_state"),
        (_S.COMPLETE_ABORT, False, "none", "new epoch"),
        (_S.COMPLETE_ABORT, True, "invalid_txn_state", "invalid_txn_state"),
        (_S.COMPLETE_COMMIT, False, "invalid_txn_state", "new epoch"),
        (_S.COMPLETE_COMMIT, True, "none", "invalid_txn_state"),
    ],
)
def test_version_2_answers_an_end_without_a_transaction_by_its_table(
    state: TransactionState, is_commit: bool, retry: str, current: str
) -> None:
    """T20, KIP-890"""
    driver = Driver(2)
    driver.begun()
    driver.put(driver.metadata()._replace(state=state, producer_epoch=5, client_version=2))
    assert driver.end(Producer(4000, 4), is_commit).error.name == retry
    reply = driver.end(Producer(4000, 5), is_commit)
    if current == "new epoch":
        assert reply.producer == Producer(4000, 6)
        assert driver.metadata().state is _S.PREPARE_ABORT
        driver.complete()
        assert driver.metadata().state is _S.COMPLETE_ABORT
    else:
        assert reply.error.name == current


def test_version_2_goes_on_with_another_producer_id_when_epochs_ran_out() -> None:
    """T12, KIP-890"""
    driver = Driver(2)
    driver.begun()
    driver.put(driver.metadata()._replace(producer_epoch=32766))
    last = Producer(4000, 32766)
    driver.add(last)
    reply = driver.end(last)
    assert reply.producer == Producer(4001, 0)
    assert driver.markers[0].metadata.producer_epoch == 32767
    assert driver.end(last).error is ErrorCode.concurrent_transactions
    assert driver.add(reply.producer) is ErrorCode.concurrent_transactions
    driver.fail_over()
    driver.complete()
    assert driver.end(last) == reply, "the answer was lost"
    assert driver.add(reply.producer) is ErrorCode.none
    assert driver.end(last).error is ErrorCode.invalid_producer_id_mapping


def test_a_client_of_version_0_may_end_its_transaction_where_version_2_is_finalized() -> None:
    driver = Driver(2)
    producer = driver.begun()
    driver.add(producer)
    assert driver.end(producer, version=0).error is ErrorCode.none
    driver.complete()
    assert driver.metadata().producer_epoch == producer.epoch
    assert driver.add(producer) is ErrorCode.none


# -- timeouts and expiry -----------------------------------------------------


@BOTH
def test_a_transaction_that_lasts_too_long_is_aborted_through_a_fence(version: int) -> None:
    """T21"""
    driver = Driver(version)
    producer = driver.begun()
    started_ms = driver.now_ms
    driver.add(producer)
    driver.now_ms += 30_000
    driver.add(producer, STOCK)
    assert driver.metadata().start_ms == started_ms, "the time of the first partition"
    driver.now_ms = started_ms + 60_000
    driver.settle(driver.shard.on_timer(ABORT_LATE, driver.now()))
    assert driver.metadata().state is _S.ONGOING
    driver.now_ms += 1
    driver.settle(driver.shard.on_timer(ABORT_LATE, driver.now()))
    assert driver.metadata().state is _S.PREPARE_ABORT
    assert driver.metadata().producer_epoch == 1
    assert driver.add(producer) is ErrorCode.producer_fenced
    assert driver.end(producer, version=0).error is ErrorCode.producer_fenced
    driver.complete()
    assert driver.end(producer, version=0).error is ErrorCode.producer_fenced


@BOTH
def test_a_transaction_does_not_last_longer_because_the_clock_was_ahead(version: int) -> None:
    """T21: of the coordinator before, or of this one. Found by the simulation."""
    driver = Driver(version)
    driver.add(driver.begun())
    driver.now_ms -= 600_000
    driver.fail_over()
    driver.settle(driver.shard.on_timer(ABORT_LATE, driver.now()))
    assert driver.metadata().start_ms == driver.now_ms
    driver.now_ms += 60_001
    driver.settle(driver.shard.on_timer(ABORT_LATE, driver.now()))
    assert driver.metadata().state is _S.PREPARE_ABORT


def test_timers_are_armed_again_also_when_their_records_failed() -> None:
    """T21"""
    driver = Driver()
    driver.add(driver.begun())
    driver.now_ms += 100_000
    result = driver.shard.on_timer(ABORT_LATE, driver.now())
    failed = driver.shard.on_append_failed(
        result, ErrorCode.coordinator_not_available, driver.now()
    )
    (again,) = failed.effects
    assert isinstance(again, ArmTimer)
    assert again.key == ABORT_LATE
    assert driver.metadata().state is _S.ONGOING


def test_an_id_that_nobody_uses_expires_when_its_tombstone_is_committed() -> None:
    """T22"""
    driver = Driver()
    producer = driver.begun()
    driver.now_ms += SETTINGS.expiration_ms
    result = driver.shard.on_timer(EXPIRE_IDS, driver.now())
    assert driver.shard.get(ID) is None, "hidden from operators"
    assert driver.init().error is ErrorCode.concurrent_transactions
    driver.settle(result)
    assert len(driver.shard) == 0
    assert driver.add(producer) is ErrorCode.invalid_producer_id_mapping
    assert driver.end(producer).error is ErrorCode.invalid_producer_id_mapping
    driver.fail_over()
    assert len(driver.shard) == 0


def test_an_id_with_a_transaction_does_not_expire() -> None:
    """T22"""
    driver = Driver()
    producer = driver.begun()
    driver.add(producer)
    driver.now_ms += 2 * SETTINGS.expiration_ms
    assert not driver.shard.on_timer(EXPIRE_IDS, driver.now()).records
    driver.end(producer)
    driver.now_ms += 2 * SETTINGS.expiration_ms
    assert not driver.shard.on_timer(EXPIRE_IDS, driver.now()).records


# -- loading -----------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_are_sent_again_by_the_next_coordinator_in_its_epoch(
    version: int, is_commit: bool
) -> None:
    """T7"""
    driver = Driver(version)
    producer = driver.begun()
    driver.add(producer, ORDERS, STOCK)
    driver.end(producer, is_commit)
    (before,) = driver.markers
    driver.fail_over()
    (again,) = driver.markers
    assert again.coordinator_epoch == before.coordinator_epoch + 1
    assert again.metadata.partitions == {ORDERS, STOCK}
    assert again.metadata.producer_epoch == before.metadata.producer_epoch
    driver.complete()
    driver.fail_over()
    assert not driver.markers


def test_a_completion_of_an_earlier_coordinator_epoch_is_refused() -> None:
    """T8"""
    driver = Driver()
    producer = driver.begun()
    driver.add(producer)
    driver.end(producer)
    (before,) = driver.markers
    driver.fail_over()
    result = driver.shard.complete(before.metadata, before.coordinator_epoch, driver.now())
    assert not result.records


def test_a_transaction_is_completed_once() -> None:
    driver = Driver()
    producer = driver.begun()
    driver.add(producer)
    driver.end(producer)
    driver.markers *= 2
    assert driver.complete() is ErrorCode.concurrent_transactions
    assert driver.metadata().state is _S.COMPLETE_COMMIT


def test_operators_see_the_partitions_that_have_no_marker_yet() -> None:
    """T44"""
    driver = Driver()
    producer = driver.begun()
    driver.add(producer, ORDERS, STOCK)
    driver.end(producer)
    driver.shard.on_markers(ID, frozenset({ORDERS}))
    assert driver.metadata().partitions == {STOCK}
    driver.complete()
    assert driver.metadata().state is _S.COMPLETE_COMMIT


@BOTH
def test_an_id_is_open_from_its_first_partition_until_its_transaction_is_completed(
    version: int,
) -> None:
    """T44"""
    driver = Driver(version)

    def is_open() -> bool:
        return driver.shard.open_transactions() == [driver.metadata()]

    producer = driver.begun()
    assert not driver.shard.open_transactions()
    driver.add(producer)
    assert is_open()
    driver.fail_over()
    assert is_open()
    driver.end(producer)
    assert is_open()
    driver.complete()
    assert not driver.shard.open_transactions()
    driver.fail_over()
    assert not driver.shard.open_transactions()


def test_a_decision_changes_nothing_by_itself() -> None:
    """T5"""
    driver = Driver()
    metadata: TransactionMetadata = driver.begun() and driver.metadata()
    request = InitProducer(ID, 60_000)
    driver.shard.init(request, driver.now())
    assert driver.metadata() is metadata
