"""Each safeguard of transactions acts where it should, and does not when disabled."""

from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.safeguards import Safeguards
from barnabas.groups.offsets.committed_offsets import Offsets
from barnabas.groups.offsets.offset_messages import AskedTopic, OffsetSettings
from barnabas.groups.records.offset_record import CommittedOffset, OffsetCommit
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.producers.verification import UNGUARDED
from barnabas.wire.records.batch import TRANSACTIONAL
from tests.coordinator.counters import in_virtual_time, turns
from tests.coordinator.test_committed_replay import CommittedBroker
from tests.log.test_producer_state import DAY_MS, batch, marker
from tests.transactions.driver import ORDERS, SETTINGS, Driver

BOTH = pytest.mark.parametrize("in_force", [True, False])
PAST, CURRENT = 3, 4


def states(**safeguards: bool) -> ProducerStates:
    return ProducerStates(DAY_MS, Safeguards(**safeguards))


def open_transaction(producers: ProducerStates, epoch: int = CURRENT) -> None:
    producers.apply(batch(0, epoch=epoch, attributes=TRANSACTIONAL), 0, 1)


@BOTH
def test_a_leader_refuses_a_producer_of_a_past_epoch(in_force: bool) -> None:
    producers = states(producer_epoch_fence=in_force)
    open_transaction(producers)
    past = batch(0, epoch=PAST, attributes=TRANSACTIONAL)
    if in_force:
        with pytest.raises(BrokerError) as refused:
            producers.check(past, UNGUARDED)
        assert refused.value.code is ErrorCode.invalid_producer_epoch
    else:
        assert producers.check(past, UNGUARDED) is None


@BOTH
def test_a_coordinator_refuses_a_producer_of_a_past_epoch(in_force: bool) -> None:
    driver = Driver(settings=SETTINGS._replace(fences_epochs=in_force))
    past = driver.begun()
    assert driver.add(driver.begun()) is ErrorCode.none
    expected = ErrorCode.producer_fenced if in_force else ErrorCode.none
    assert driver.end(past).error is expected


@BOTH
def test_a_batch_joins_a_transaction_only_with_its_guard(in_force: bool) -> None:
    producers = states(verification_guard=in_force)
    first = batch(0, attributes=TRANSACTIONAL)
    if in_force:
        with pytest.raises(BrokerError) as refused:
            producers.check(first)
        assert refused.value.code is ErrorCode.invalid_txn_state
    else:
        assert producers.check(first) is None


@BOTH
def test_a_leader_refuses_the_marker_of_a_past_coordinator(in_force: bool) -> None:
    producers = states(coordinator_epoch_fence=in_force)
    producers.apply_marker(marker(), 0, 1, coordinator_epoch=CURRENT, aborted=True)
    if in_force:
        with pytest.raises(BrokerError) as refused:
            producers.check_marker(marker(), PAST)
        assert refused.value.code is ErrorCode.transaction_coordinator_fenced
    else:
        producers.check_marker(marker(), PAST)


@in_virtual_time
async def test_a_coordinator_answers_when_its_record_is_replicated(tmp_path: Path) -> None:
    for in_force in (True, False):
        broker = CommittedBroker(tmp_path / str(in_force), awaits_replicas=in_force)
        await broker.lead()
        broker.writer.commits_at_once = False
        reply = broker.add("a")
        await turns()
        assert reply.done() is not in_force
        broker.writer.commit()
        await reply


@BOTH
def test_read_committed_stops_at_the_last_stable_offset(in_force: bool) -> None:
    producers = states(last_stable_offset_bound=in_force)
    open_transaction(producers)
    assert producers.first_unstable_offset == (0 if in_force else None)


@BOTH
def test_offsets_wait_for_the_transaction_that_may_change_them(in_force: bool) -> None:
    offsets = Offsets(OffsetSettings(awaits_transactions=in_force))
    written = CommittedOffset(5, -1, "", 1, -1)
    offsets.replay_transactional(7, OffsetCommit("group", *ORDERS, written))
    asked = [AskedTopic(ORDERS.topic, [ORDERS.partition])]
    (topic,) = offsets.fetch("group", asked, require_stable=True).topics
    expected = ErrorCode.unstable_offset_commit if in_force else ErrorCode.none
    assert [each.error for each in topic.partitions] == [expected]
