"""A coordinator and its markers: again until they are written, and never after it resigned."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.offload import InlineOffload
from barnabas.base.safeguards import IN_FORCE
from barnabas.config.broker_config import BrokerConfig
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.purgatory.timer import Timer
from barnabas.server.transactions.marker_channels import Marker, MarkerChannels
from barnabas.server.transactions.marker_writer import Results
from barnabas.server.transactions.transaction_coordinator import (
    LONGEST_AGAIN_S,
    TransactionCoordinator,
)
from barnabas.server.transactions.transaction_topic import TRANSACTION_TOPIC
from barnabas.transactions.transaction_messages import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    Producer,
)
from tests.coordinator.counters import SkewedClock, ToyWriter, in_virtual_time, turns
from tests.log.batches import open_partition
from tests.server.test_marker_channels import A, B, cluster
from tests.support.recorded_failures import RecordedFailures

ID = "payments"
HOME = TopicPartition(TRANSACTION_TOPIC, 0)


@dataclass
class Sent:
    at_s: float
    leader: int
    marker: Marker
    partitions: frozenset[TopicPartition]
    results: "asyncio.Future[Results]"

    def answer(self, code: ErrorCode = ErrorCode.none) -> None:
        self.results.set_result(dict.fromkeys(self.partitions, code))


@dataclass
class Channels(MarkerChannels):
    """Keeps what is sent; answers at once with `code`, if there is one."""

    code: ErrorCode | None = None
    at_once: Results = field(default_factory=dict)  # of what is written at once, or refused
    sent: list[Sent] = field(default_factory=list)

    def write_at_once(self, marker: Marker, partitions: Iterable[TopicPartition]) -> Results:
        return self.at_once

    def write(
        self, broker_id: BrokerId, marker: Marker, partitions: frozenset[TopicPartition]
    ) -> "asyncio.Future[Results]":
        loop = asyncio.get_running_loop()
        sent = Sent(loop.time(), broker_id, marker, partitions, loop.create_future())
        self.sent.append(sent)
        if self.code is not None:
            sent.answer(self.code)
        return sent.results


class Leading:
    """A coordinator over a real log; tests say in which epoch it leads, and who answers."""

    def __init__(self, folder: Path, code: ErrorCode | None = None) -> None:
        self.writer = ToyWriter(open_partition(folder))
        self.failures = RecordedFailures(expects_none=True)
        self.channels = Channels(code)
        self.metadata = cluster({0: 1, 1: 1}, {A: 0, B: 1, HOME: 0})
        self.producer = Producer()
        self._leader: Any = None
        self._tenure = object()
        timer = Timer(asyncio.get_running_loop(), self.failures)
        replicas: Any = SimpleNamespace(find=lambda *_: self._leader)
        configs: Any = SimpleNamespace(broker=BrokerConfig.from_properties({}))
        producer_ids: Any = SimpleNamespace(next=self._next_producer_id)
        features: Any = SimpleNamespace(transaction_version=lambda: 0)
        topics: Any = None
        self.coordinator = TransactionCoordinator(
            replicas,
            self.metadata,
            configs,
            topics,
            CoordinatorPorts(self.writer, timer, SkewedClock(), InlineOffload(), self.failures),
            producer_ids,
            features,
            self.channels,
            IN_FORCE,
        )

    async def _next_producer_id(self) -> int:
        return 7

    async def lead(self, epoch: int) -> None:
        self._leader = SimpleNamespace(tenure=self._tenure, epoch=epoch)
        self.coordinator.on_role(HOME)
        await asyncio.sleep(0.01)
        assert not self.coordinator.loading

    def resign(self) -> None:
        self._leader = None
        self.coordinator.on_role(HOME)

    async def end(self, *partitions: TopicPartition) -> None:
        """A transaction with these partitions commits; its markers are on their way."""
        self.producer = (await self.coordinator.init(InitProducer(ID, 60_000))).producer
        added = AddPartitions(ID, self.producer, frozenset(partitions))
        assert await self.coordinator.add(added) is ErrorCode.none
        ended = EndTransaction(ID, self.producer, is_commit=True)
        assert (await self.coordinator.end(ended)).error is ErrorCode.none
        await turns()

    async def end_at_once(self, *partitions: TopicPartition) -> None:
        """The same, and its markers are due in the next turn."""
        self.producer = (await self.coordinator.init(InitProducer(ID, 60_000))).producer
        added = AddPartitions(ID, self.producer, frozenset(partitions))
        assert self.coordinator.add_at_once(added) is ErrorCode.none
        ended = EndTransaction(ID, self.producer, is_commit=True)
        assert self.coordinator.end_at_once(ended) is ErrorCode.none

    async def state(self) -> str:
        found = self.coordinator.describe(ID)
        return "" if found is None else found.state.value

    async def close(self) -> None:
        self.resign()
        await turns()


@in_virtual_time
async def test_refused_markers_are_sent_again_after_longer_and_longer_pauses(
    tmp_path: Path,
) -> None:
    """T25"""
    leading = Leading(tmp_path, ErrorCode.not_leader_or_follower)
    await leading.lead(3)
    await leading.end(A)
    await asyncio.sleep(20)
    sent = leading.channels.sent
    pauses = [round(b.at_s - a.at_s, 3) for a, b in pairwise(sent)]
    assert pauses[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, LONGEST_AGAIN_S, LONGEST_AGAIN_S]
    assert await leading.state() == "PrepareCommit"
    leading.channels.code = ErrorCode.none
    await asyncio.sleep(LONGEST_AGAIN_S)
    assert await leading.state() == "CompleteCommit"
    await leading.close()


@in_virtual_time
async def test_a_marker_is_sent_again_to_the_leader_of_then_and_only_where_it_is_missing(
    tmp_path: Path,
) -> None:
    """T25, T28"""
    leading = Leading(tmp_path)
    await leading.lead(3)
    await leading.end(A, B)
    first, second = leading.channels.sent
    assert first.partitions == {A}
    assert second.partitions == {B}
    first.answer()
    second.answer(ErrorCode.not_leader_or_follower)
    leading.metadata._by_name.update(cluster({}, {A: 1, B: 0})._by_name)
    await asyncio.sleep(1)
    (again,) = leading.channels.sent[2:]
    assert again.leader == 0
    assert again.partitions == {B}
    again.answer()
    await turns()
    assert await leading.state() == "CompleteCommit"
    await leading.close()


@pytest.mark.parametrize("leads_again", [True, False])
def test_markers_of_a_coordinator_that_resigned_are_dropped(
    tmp_path: Path, leads_again: bool
) -> None:
    """T7, T8: those of the next epoch are sent by its own coordinator."""

    @in_virtual_time
    async def scenario() -> None:
        leading = Leading(tmp_path)
        await leading.lead(3)
        await leading.end(A)
        (old,) = leading.channels.sent
        assert leading.coordinator.markers_waiting == 1
        if leads_again:
            await leading.lead(5)
        else:
            leading.resign()
        await turns()
        assert old.results.cancelled(), "it stays in no queue"
        assert leading.coordinator.markers_waiting == leads_again
        await asyncio.sleep(10)
        new = leading.channels.sent[1:]
        assert [each.marker.coordinator_epoch for each in new] == [5] * leads_again
        for each in new:
            each.answer()
        await turns()
        if leads_again:
            assert await leading.state() == "CompleteCommit"
        else:
            with pytest.raises(BrokerError):
                await leading.state()
        await leading.close()

    scenario()


@in_virtual_time
async def test_a_completion_that_is_not_written_is_tried_again(tmp_path: Path) -> None:
    """T6"""
    leading = Leading(tmp_path)
    await leading.lead(3)
    await leading.end(A)
    leading.writer.error = BrokerError(ErrorCode.not_enough_replicas)
    leading.channels.sent[0].answer()
    await asyncio.sleep(5)
    assert await leading.state() == "PrepareCommit"
    leading.writer.error = None
    await asyncio.sleep(LONGEST_AGAIN_S)
    assert await leading.state() == "CompleteCommit"
    assert len(leading.channels.sent) == 1
    await leading.close()


@in_virtual_time
async def test_a_marker_that_is_refused_at_once_is_sent_again_after_a_pause(tmp_path: Path) -> None:
    """T25: what failed may be in the log; success is what a later attempt says."""
    leading = Leading(tmp_path, ErrorCode.none)
    leading.channels.at_once = {A: ErrorCode.kafka_storage_error}
    await leading.lead(3)
    await leading.end(A, B)
    assert [each.partitions for each in leading.channels.sent] == [{B}]
    assert await leading.state() == "PrepareCommit"
    await asyncio.sleep(0.2)
    first, second = leading.channels.sent
    assert second.partitions == {A}
    assert round(second.at_s - first.at_s, 3) == 0.1
    assert await leading.state() == "CompleteCommit"
    await leading.close()


@in_virtual_time
async def test_a_marker_that_is_fenced_at_once_ends_the_attempts(tmp_path: Path) -> None:
    """T25"""
    leading = Leading(tmp_path)
    leading.channels.at_once = {A: ErrorCode.transaction_coordinator_fenced}
    await leading.lead(3)
    await leading.end(A)
    await asyncio.sleep(60)
    assert leading.channels.sent == []
    assert await leading.state() == "PrepareCommit"
    assert leading.coordinator.markers_waiting == 0
    await leading.close()


@pytest.mark.parametrize("leads_again", [True, False])
def test_a_coordinator_that_resigns_before_its_markers_are_written_writes_none(
    tmp_path: Path, leads_again: bool
) -> None:
    """T7: between the outcome and the next turn of the loop."""

    @in_virtual_time
    async def scenario() -> None:
        leading = Leading(tmp_path)
        await leading.lead(3)
        await leading.end_at_once(A)
        assert leading.coordinator.markers_waiting == 1
        if leads_again:
            await leading.lead(5)
        else:
            leading.resign()
        await turns()
        assert leading.coordinator.markers_waiting == leads_again
        await asyncio.sleep(10)
        sent = leading.channels.sent
        assert [each.marker.coordinator_epoch for each in sent] == [5] * leads_again
        for each in sent:
            each.answer()
        await turns()
        if leads_again:
            assert await leading.state() == "CompleteCommit"
        await leading.close()

    scenario()


@in_virtual_time
async def test_a_completion_waits_for_a_replica_that_is_added_before_it(tmp_path: Path) -> None:
    """T5"""
    leading = Leading(tmp_path)
    await leading.lead(3)
    await leading.end_at_once(A)
    leading.writer.commits_at_once = False
    await turns()
    leading.channels.sent[0].answer()
    await turns()
    assert await leading.state() == "PrepareCommit"
    again = AddPartitions(ID, leading.producer, frozenset({A}))
    assert leading.coordinator.add_at_once(again) is None
    leading.writer.commit()
    await turns()
    assert await leading.state() == "CompleteCommit"
    await leading.close()


@pytest.mark.parametrize(
    "code", [ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced]
)
def test_a_coordinator_that_is_fenced_neither_tries_again_nor_completes(
    tmp_path: Path, code: ErrorCode
) -> None:
    """T25"""

    @in_virtual_time
    async def scenario() -> None:
        leading = Leading(tmp_path, code)
        await leading.lead(3)
        await leading.end(A)
        await asyncio.sleep(60)
        assert len(leading.channels.sent) == 1
        assert await leading.state() == "PrepareCommit"
        assert leading.coordinator.markers_waiting == 0
        await leading.close()

    scenario()
