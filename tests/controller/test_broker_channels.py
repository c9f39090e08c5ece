"""The line to each broker: in order, one at a time, until answered or given up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import LiveBroker
from barnabas.controller.events import (
    ControllerChanged,
    Event,
    ReplicasDeleted,
)
from barnabas.controller.io.broker_channels import BACK_OFF_S, Channels, ChannelState
from barnabas.controller.io.broker_responses import decide_event
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.controller.io.superseded_requests import without_superseded
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.control.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from barnabas.wire.control.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from barnabas.wire.schema import Message
from barnabas.znodes.layout import BrokerRegistration
from tests.controller.cluster import FakeBroker, FakePeer
from tests.purgatory.virtual_loop import VirtualLoop
from tests.support.recorded_failures import RecordedFailures

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
        self.failures = RecordedFailures()
        self.timeout_s = 1.0
        self.channels = Channels(
            OWN,
            connect=self.connect,
            local=self.own.answer,
            on_answer=self.events.append,
            failures=self.failures,
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
            failures=RecordedFailures(),
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
            failures=setting.failures,
            timeout_s=lambda: 1.0,
        )
        channels.set_brokers(live(OWN))
        channels.send({OWN: [numbered(1)]})
        await asyncio.sleep(1)
        assert isinstance(setting.failures.broken[0], KeyError)
        await channels.close()

    in_virtual_time(scenario())


def test_the_queue_to_a_broker_that_hangs_stays_as_short_as_what_there_is_to_know() -> None:
    async def scenario() -> None:
        setting = Setting()
        setting.broker.hung, setting.timeout_s = True, 1000
        setting.channels.set_brokers(live(OTHER))
        setting.channels.send({OTHER: [numbered(0)]})
        await asyncio.sleep(1)
        for number in range(1, 5000):
            setting.channels.send({OTHER: [numbered(number)]})
            assert setting.channels.states()[OTHER].queue <= 256
        setting.broker.hung = False
        await asyncio.sleep(1000)
        assert setting.heard()[-1] == 4999
        await setting.channels.close()

    in_virtual_time(scenario())


PARTITIONS = st.sets(st.integers(0, 3), min_size=1)
REQUESTS = st.lists(
    st.tuples(st.sampled_from(["leaders", "metadata", "stop"]), PARTITIONS, st.booleans())
)


@settings(deadline=None)
@given(REQUESTS)
def test_what_is_left_of_a_queue_says_the_same_in_the_end(
    asked: list[tuple[str, set[int], bool]],
) -> None:
    queue = [
        request(kind, partitions, flag, number)
        for number, (kind, partitions, flag) in enumerate(asked)
    ]
    left = without_superseded(queue)
    assert last_words(left) == last_words(queue)
    stops = [each for each in queue if each.key is ApiKey.STOP_REPLICA]
    assert [each for each in left if each.key is ApiKey.STOP_REPLICA] == stops
    assert len(left) - len(stops) <= 2 * 4
    assert places(left) == sorted(places(left))


def request(kind: str, partitions: set[int], flag: bool, number: int) -> ControlRequest:
    if kind == "stop":
        return stop(*(("t", n, flag) for n in sorted(partitions)))
    if kind == "leaders":
        states = tuple(leadership(n, number, flag) for n in sorted(partitions))
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=None, partition_states=states)
        message: Any = LeaderAndIsrRequest(
            controller_id=0, controller_epoch=number, topic_states=(topic,), live_leaders=()
        )
        return ControlRequest(ApiKey.LEADER_AND_ISR, 7, message)
    told = UpdateMetadataTopicState(
        topic_name="t",
        topic_id=None,
        partition_states=tuple(metadata(n, number) for n in sorted(partitions)),
    )
    message = UpdateMetadataRequest(
        controller_id=0, controller_epoch=number, topic_states=(told,), live_brokers=()
    )
    return ControlRequest(ApiKey.UPDATE_METADATA, 8, message)


def leadership(index: int, epoch: int, is_new: bool) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=1,
        leader_epoch=epoch,
        isr=(),
        partition_epoch=0,
        replicas=(),
        is_new=is_new,
    )


def metadata(index: int, epoch: int) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=1,
        leader_epoch=epoch,
        isr=(),
        zk_version=0,
        replicas=(),
    )


def last_words(queue: list[ControlRequest]) -> dict[tuple[ApiKey, int], tuple[int, bool]]:
    """The last leader epoch told of each partition, and whether it was ever called new."""
    words: dict[tuple[ApiKey, int], tuple[int, bool]] = {}
    for each in queue:
        if each.key is not ApiKey.STOP_REPLICA:
            for state in each.message.topic_states[0].partition_states:
                key = (each.key, state.partition_index)
                is_new = getattr(state, "is_new", False) or words.get(key, (0, False))[1]
                words[key] = (state.leader_epoch, is_new)
    return words


def places(queue: list[ControlRequest]) -> list[int]:
    return [each.message.controller_epoch for each in queue if each.key is not ApiKey.STOP_REPLICA]


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


@pytest.mark.parametrize("whole", [ErrorCode.none, ErrorCode.unknown_server_error])
def test_an_answer_to_deletions_tells_of_each_that_was_to_be_deleted(whole: ErrorCode) -> None:
    answer = StopReplicaResponse(error_code=whole, partition_errors=())
    event = decide_event(OTHER, stop(("a", 0, True), ("b", 1, False)), answer)
    assert event == ReplicasDeleted(OTHER, {TopicPartition("a", 0): whole})


def test_a_broker_that_has_registered_anew_has_not_refused_a_deletion() -> None:
    answer = StopReplicaResponse(error_code=ErrorCode.stale_broker_epoch, partition_errors=())
    assert decide_event(OTHER, stop(("a", 0, True)), answer) is None


def test_an_answer_from_one_who_knows_a_newer_controller_makes_us_look() -> None:
    answer = UpdateMetadataResponse(error_code=ErrorCode.stale_controller_epoch)
    assert decide_event(OTHER, numbered(1), answer) == ControllerChanged()


def test_an_answer_that_all_is_well_is_no_event() -> None:
    assert decide_event(OTHER, numbered(1), UpdateMetadataResponse(error_code=ErrorCode.none)) is (
        None
    )
    answer = StopReplicaResponse(error_code=ErrorCode.none, partition_errors=())
    assert decide_event(OTHER, stop(("a", 0, False)), answer) is None
