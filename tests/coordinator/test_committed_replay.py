"""A shard whose records are replayed when they are committed: nothing is ahead of the log."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.offload import InlineOffload
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime
from barnabas.coordinator.result import CoordinatorResult, Emit, Now
from tests.coordinator.counters import (
    TOPIC,
    Broker,
    Count,
    Counters,
    SkewedClock,
    error_of,
    in_virtual_time,
    record,
    turns,
)
from tests.coordinator.test_coordinator_runtime import written


class CommittedBroker(Broker):
    """Records wait for their commit; events are kept."""

    def __init__(self, folder: Path, *, awaits_replicas: bool = True) -> None:
        super().__init__(folder)
        self.events: list[object] = []
        self.epochs: list[int] = []
        ports = CoordinatorPorts(
            self.writer, self.timer, SkewedClock(), InlineOffload(), self.failures
        )
        self.runtime = CoordinatorRuntime(
            replace(TOPIC, replays_when_committed=True, awaits_replicas=awaits_replicas),
            self._with_epoch,
            ports,
            lambda _, event: self.events.append(event),
        )

    def _with_epoch(self, epoch: int) -> Counters:
        self.epochs.append(epoch)
        return self._new_shard(epoch)

    async def emit(self, event: str) -> None:
        def decide(shard: Counters, now: Now) -> CoordinatorResult[Count]:
            return shard.add("a", 1, now)._replace(effects=(Emit(event),))

        await self.runtime.ask(0, decide)


@in_virtual_time
async def test_state_changes_when_its_record_is_committed(tmp_path: Path) -> None:
    """T5"""
    broker = CommittedBroker(tmp_path)
    await broker.lead()
    broker.writer.commits_at_once = False
    reply = broker.add("a")
    await turns()
    assert broker.shard.counts == {}
    assert not reply.done()
    broker.writer.commit()
    assert broker.shard.counts == {"a": 1}
    assert (await reply).value == 1


@in_virtual_time
async def test_an_event_leaves_when_the_records_are_committed(tmp_path: Path) -> None:
    """T20: markers are sent once the outcome is committed"""
    broker = CommittedBroker(tmp_path)
    await broker.lead()
    broker.writer.commits_at_once = False
    asked = asyncio.ensure_future(broker.emit("markers"))
    await turns()
    assert broker.events == []
    broker.writer.commit()
    await asked
    assert broker.events == ["markers"]


@in_virtual_time
async def test_records_that_are_not_committed_in_time_change_nothing(tmp_path: Path) -> None:
    """T6"""
    broker = CommittedBroker(tmp_path)
    await broker.lead()
    broker.writer.commits_at_once = False
    reply = broker.add("a")
    assert (await reply).error is ErrorCode.coordinator_not_available
    assert broker.shard.counts == {}


@in_virtual_time
async def test_why_records_are_not_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """T6: below min.insync.replicas, retries do not fill the log"""
    broker = CommittedBroker(tmp_path)
    await broker.lead()
    broker.writer.error = BrokerError(ErrorCode.not_enough_replicas)
    for _ in range(3):
        await broker.add("a")
    assert caplog.text.count("records not written") == 1
    broker.writer.error = None
    await broker.add("a")
    broker.writer.error = BrokerError(ErrorCode.not_enough_replicas)
    await broker.add("a")
    assert caplog.text.count("records not written") == 2


@in_virtual_time
async def test_an_append_that_fails_changes_nothing(tmp_path: Path) -> None:
    """T6"""
    broker = CommittedBroker(tmp_path)
    await broker.lead()
    for code, heard in {
        ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
        ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
        ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
        ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
        ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    }.items():
        broker.writer.error = BrokerError(code)
        assert (await broker.add("a")).error is heard
    assert broker.shard.counts == {}


@in_virtual_time
async def test_a_coordinator_that_resigned_applies_nothing_that_is_committed_later(
    tmp_path: Path,
) -> None:
    """T5, T8"""
    broker = CommittedBroker(tmp_path)
    await broker.lead()
    broker.writer.commits_at_once = False
    reply = broker.add("a")
    await turns()
    former = broker.shard
    broker.runtime.on_leader(0, object(), 7)
    assert await error_of(reply) is ErrorCode.not_coordinator
    broker.writer.commit()
    assert former.counts == {}
    await broker.loaded()
    assert broker.shard.counts == {"a": 1}, "the next coordinator read it from the log"


@in_virtual_time
async def test_each_leader_epoch_has_a_shard_of_its_own(tmp_path: Path) -> None:
    """T5, T7"""
    broker = CommittedBroker(tmp_path)
    tenure = object()
    for epoch in (3, 3, 4):
        broker.runtime.on_leader(0, tenure, epoch)
        await broker.loaded()
    assert broker.epochs == [3, 4]
    assert broker.runtime.epoch(0) == 4


@in_virtual_time
async def test_a_shard_serves_when_all_that_it_loaded_is_committed(tmp_path: Path) -> None:
    """T7: what may still be lost decides nothing"""
    broker = CommittedBroker(tmp_path)
    written(broker.log, record("a", 1))
    broker.runtime.on_leader(0, object())
    await asyncio.sleep(5)
    assert await error_of(broker.get("a")) is ErrorCode.coordinator_load_in_progress
    broker.writer.commit()
    await asyncio.sleep(5)
    assert (await broker.get("a")).value == 1
