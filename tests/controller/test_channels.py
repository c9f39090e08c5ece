"""The line to each broker: in order, one at a time, until answered or given up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.answers import decide_event
from barnabas.controller.batch import ControlRequest
from barnabas.controller.channels import BACK_OFF_S, Channels, ChannelState
from barnabas.controller.context import LiveBroker
from barnabas.controller.events import (
    ControllerChanged,
    Event,
    ReplicasDeleted,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from barnabas.wire.control.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.wire.schema import Message
from barnabas.znodes.layout import BrokerRegistration
from tests.controller.cluster import FakeBroker, FakePeer
from tests.purgatory.virtual_loop import VirtualLoop

OWN, OTHER = BrokerId(0), BrokerId(1)


def in_virtual_time(scenario: Coroutine[Any, Any, None]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(scenario)
        assert not loop.errors, loop.errors
    finally:
        loop.close()


def live(broker_id: int, epoch: int = 1) -> dict[BrokerId, LiveBroker]:
    key = BrokerId(broker_id)
    return {key: LiveBroker(key, epoch, BrokerRegistration((), 0))}


def numbered(number: int) -> ControlRequest:
    message = UpdateMetadataRequest(
        controller_id=0, controller_epoch=number, topic_states=(), live_brokers=()
    )
    return ControlRequest(ApiKey.UPDATE_METADATA, 8, message)


class Setting:
    """Channels to one fake broker beside our own."""

    def __init__(self) -> None:
        self.broker = FakeBroker(OTHER)
        self.own = FakeBroker(OWN)
        self.events: list[Event] = []
        self.fatal: list[BaseException] = []
        self.timeout_s = 1.0
        self.channels = Channels(
            OWN,
            connect=self.connect,
            local=self.own.answer,
            on_answer=self.events.append,
            on_fatal=self.fatal.append,
            timeout_s=lambda: self.timeout_s,
        )

    async def connect(self, broker: LiveBroker) -> FakePeer:
        if not self.broker.reachable.is_set():
            raise PeerGone("nobody there")
        return FakePeer(self.broker)

    def heard(self) -> list[int]:
        return [request.message.controller_epoch for request in self.broker.heard]

    async def until_heard(self, count: int) -> None:
        async with asyncio.timeout(60):
            while True:
                if len(self.broker.heard) >= count:
                    return
                await asyncio.sleep(0.01)


def test_requests_arrive_in_order_and_again_when_the_broker_was_away() -> None:
    async def scenario() -> None:
        setting = Setting()
        setting.broker.reachable.clear()
        setting.channels.set_brokers(live(OTHER))
        setting.channels.send({OTHER: [numbered(n) for n in range(3)]})
        await asyncio.sleep(10 * BACK_OFF_S)
        assert setting.channels.states() == {OTHER: ChannelState(queue=2, in_flight=1)}
        setting.broker.reachable.set()
        await setting.until_heard(3)
        assert setting.heard() == [0, 1, 2]
        await setting.channels.close()

    in_virtual_time(scenario())


def test_a_request_without_an_answer_is_sent_again_on_a_new_connection() -> None:
    async def scenario() -> None:
        setting = Setting()
        setting.broker.hung = True
        setting.channels.set_brokers(live(OTHER))
        setting.channels.send({OTHER: [numbered(1), numbered(2)]})
        await asyncio.sleep(1.5)
        setting.broker.hung = False
        await setting.until_heard(2)
        assert setting.heard() == [1, 2]
        assert setting.broker.connections == 1
        await setting.channels.close()
        assert setting.broker.connections == 0

    in_virtual_time(scenario())


def test_a_broker_that_is_gone_or_another_gets_nothing_of_the_old_queue() -> None:
    async def scenario() -> None:
        setting = Setting()
        setting.broker.reachable.clear()
        setting.channels.set_brokers(live(OTHER))
        setting.channels.send({OTHER: [numbered(1)]})
        setting.channels.set_brokers(live(OTHER, epoch=2))
        setting.channels.send({OTHER: [numbered(2)]})
        setting.broker.reachable.set()
        await setting.until_heard(1)
        setting.channels.set_brokers({})
        setting.channels.send({OTHER: [numbered(3)]})
        await asyncio.sleep(1)
        assert setting.heard() == [2]
        assert setting.channels.states() == {}
        await setting.channels.close()

    in_virtual_time(scenario())


def test_closing_lets_the_own_broker_finish_what_it_has_begun() -> None:
    async def scenario() -> None:
        finished: list[bool] = []

        async def slowly(request: ControlRequest) -> Message:
            await asyncio.sleep(5)
            finished.append(True)
            return UpdateMetadataResponse(error_code=ErrorCode.none)

        channels = Channels(
            OWN,
            connect=Setting().connect,
            local=slowly,
            on_answer=lambda _: None,
            on_fatal=lambda _: None,
            timeout_s=lambda: 1.0,
        )
        channels.set_brokers(live(OWN))
        channels.send({OWN: [numbered(1), numbered(2)]})
        await asyncio.sleep(1)
        await channels.close()
        assert finished == [True]

    in_virtual_time(scenario())


def test_a_bug_in_the_own_broker_is_not_passed_over() -> None:
    async def scenario() -> None:
        setting = Setting()

        async def broken(request: ControlRequest) -> Message:
            raise KeyError("a bug")

        channels = Channels(
            OWN,
            connect=setting.connect,
            local=broken,
            on_answer=setting.events.append,
            on_fatal=setting.fatal.append,
            timeout_s=lambda: 1.0,
        )
        channels.set_brokers(live(OWN))
        channels.send({OWN: [numbered(1)]})
        await asyncio.sleep(1)
        assert isinstance(setting.fatal[0], KeyError)
        await channels.close()

    in_virtual_time(scenario())


# -- what an answer means --------------------------------------------------------


def stop(*partitions: tuple[str, int, bool]) -> ControlRequest:
    message = StopReplicaRequest(
        controller_id=0,
        controller_epoch=1,
        topic_states=tuple(
            StopReplicaTopicState(
                topic_name=topic,
                partition_states=(
                    StopReplicaPartitionState(partition_index=index, delete_partition=delete),
                ),
            )
            for topic, index, delete in partitions
        ),
    )
    return ControlRequest(ApiKey.STOP_REPLICA, 4, message)


@pytest.mark.parametrize("whole", [ErrorCode.none, ErrorCode.stale_broker_epoch])
def test_an_answer_to_deletions_tells_of_each_that_was_to_be_deleted(whole: ErrorCode) -> None:
    answer = StopReplicaResponse(error_code=whole, partition_errors=())
    event = decide_event(OTHER, stop(("a", 0, True), ("b", 1, False)), answer)
    assert event == ReplicasDeleted(OTHER, {TopicPartition("a", 0): whole})


def test_an_answer_from_one_who_knows_a_newer_controller_makes_us_look() -> None:
    answer = UpdateMetadataResponse(error_code=ErrorCode.stale_controller_epoch)
    assert decide_event(OTHER, numbered(1), answer) == ControllerChanged()


def test_an_answer_that_all_is_well_is_no_event() -> None:
    assert decide_event(OTHER, numbered(1), UpdateMetadataResponse(error_code=ErrorCode.none)) is (
        None
    )
    answer = StopReplicaResponse(error_code=ErrorCode.none, partition_errors=())
    assert decide_event(OTHER, stop(("a", 0, False)), answer) is None
