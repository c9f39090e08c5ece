"""The request batch: the requests of each broker, built once for all brokers."""

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.client.requests import write_request
from barnabas.controller.context import Assignment, Context, PartitionLeadership
from barnabas.controller.decide.steps import LeaderAndIsrTo, MetadataOf, StopReplicaTo, whole_topics
from barnabas.controller.io.request_batch import (
    ControlRequest,
    RequestBatch,
)
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.control.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.control.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.wire.control.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.controller.contexts import (
    EPOCH,
    T0,
    T1,
    brokers,
    context_of,
    contexts,
    leading,
    live_broker,
    one,
)

ME = BrokerId(1)
U0 = TopicPartition("u", 0)


def batch(context: Context) -> RequestBatch:
    return RequestBatch(context, ME)


def keys(requests: list[ControlRequest]) -> list[ApiKey]:
    return [each.key for each in requests]


def message(requests: list[ControlRequest], key: ApiKey) -> Any:
    (found,) = (each.message for each in requests if each.key is key)
    return found


def states(of: Any) -> dict[TopicPartition, Any]:
    return {
        TopicPartition(topic.topic_name, state.partition_index): state
        for topic in of.topic_states
        for state in topic.partition_states
    }


def test_an_empty_batch_has_no_requests() -> None:
    assert batch(one((1, 2), leading(1, [1]))).build() == {}


def test_replicas_get_leader_and_isr_and_every_broker_the_metadata() -> None:
    assignment = Assignment(brokers(1, 2, 3), adding=brokers(2), removing=brokers(3))
    state = leading(1, [1, 3], by=6, recovering=True)
    told = batch(context_of({T0: (assignment, state)}))
    told.add_leader_and_isr(brokers(1, 2), T0)
    requests = told.build()
    assert {broker: keys(each) for broker, each in requests.items()} == {
        1: [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA],
        2: [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA],
        3: [ApiKey.UPDATE_METADATA],
    }
    assert message(requests[BrokerId(2)], ApiKey.LEADER_AND_ISR) == LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=EPOCH,
        broker_epoch=102,
        topic_states=(
            LeaderAndIsrTopicState(
                topic_name="t",
                topic_id=uuid.UUID(int=1),
                partition_states=(
                    LeaderAndIsrPartitionState(
                        partition_index=0,
                        controller_epoch=6,
                        leader=1,
                        leader_epoch=5,
                        isr=(1, 3),
                        partition_epoch=40,
                        replicas=(1, 2, 3),
                        adding_replicas=(2,),
                        removing_replicas=(3,),
                        is_new=False,
                        leader_recovery_state=1,
                    ),
                ),
            ),
        ),
        live_leaders=(LeaderAndIsrLiveLeader(broker_id=1, host_name="host1", port=19001),),
    )


def test_metadata_has_all_live_brokers_and_the_offline_replicas() -> None:
    context = one((1, 2, 3), leading(1, [1]), live=(1, 2), shutting_down=(2,))
    context.apply_brokers({**context.live, BrokerId(2): live_broker(2, rack="r")})
    told = batch(context)
    told.add_update_metadata(brokers(2, 3), [T0])
    requests = told.build()
    assert list(requests) == [2]
    assert message(requests[BrokerId(2)], ApiKey.UPDATE_METADATA) == UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=EPOCH,
        broker_epoch=102,
        topic_states=(
            UpdateMetadataTopicState(
                topic_name="t",
                topic_id=uuid.UUID(int=1),
                partition_states=(
                    UpdateMetadataPartitionState(
                        partition_index=0,
                        controller_epoch=EPOCH,
                        leader=1,
                        leader_epoch=5,
                        isr=(1,),
                        zk_version=40,
                        replicas=(1, 2, 3),
                        offline_replicas=(2, 3),
                    ),
                ),
            ),
        ),
        live_brokers=(metadata_broker(1), metadata_broker(2, rack="r")),
    )


def metadata_broker(broker: int, rack: str | None = None) -> UpdateMetadataBroker:
    clients = UpdateMetadataEndpoint(
        port=9000 + broker, host="outside", listener="CLIENTS", security_protocol=3
    )
    plaintext = UpdateMetadataEndpoint(
        port=19000 + broker, host=f"host{broker}", listener="PLAINTEXT", security_protocol=0
    )
    return UpdateMetadataBroker(id=broker, endpoints=(clients, plaintext), rack=rack)


def test_stop_replica_has_the_leader_epoch() -> None:
    context = context_of(
        {
            T0: (Assignment(brokers(1, 2)), leading(1, [1])),
            T1: (Assignment(brokers(1, 2)), None),
            U0: (Assignment(brokers(1, 2)), leading(1, [1])),
        }
    )
    context.apply_deleting(["u"])
    told = batch(context)
    told.add_stop_replica(brokers(2, 9), T0)
    told.add_stop_replica(brokers(2), T1)
    told.add_stop_replica(brokers(2), U0, delete=True)
    requests = told.build()
    assert list(requests) == [2]
    assert requests[BrokerId(2)] == [
        ControlRequest(
            ApiKey.STOP_REPLICA,
            4,
            StopReplicaRequest(
                controller_id=1,
                controller_epoch=EPOCH,
                broker_epoch=102,
                topic_states=(
                    StopReplicaTopicState(
                        topic_name="t",
                        partition_states=(stop(0, 5), stop(1, -1)),
                    ),
                    StopReplicaTopicState(
                        topic_name="u", partition_states=(stop(0, -2, delete=True),)
                    ),
                ),
            ),
        )
    ]


def stop(partition: int, epoch: int, *, delete: bool = False) -> StopReplicaPartitionState:
    return StopReplicaPartitionState(
        partition_index=partition, leader_epoch=epoch, delete_partition=delete
    )


def test_a_broker_gets_leader_and_isr_then_metadata_then_stop_replica() -> None:
    told = batch(one((1, 2), leading(1, [1])))
    told.add(StopReplicaTo(brokers(2), T0))
    told.add(MetadataOf(T0))
    told.add(LeaderAndIsrTo(brokers(2), T0))
    requests = told.build()[BrokerId(2)]
    assert keys(requests) == [
        ApiKey.LEADER_AND_ISR,
        ApiKey.UPDATE_METADATA,
        ApiKey.STOP_REPLICA,
    ]


def test_requests_have_the_newest_versions() -> None:
    told = batch(one((1, 2), leading(1, [1])))
    told.add(LeaderAndIsrTo(brokers(2), T0))
    told.add(StopReplicaTo(brokers(2), T0))
    for request in told.build()[BrokerId(2)]:
        assert request.version == APIS[request.key].highest
        assert write_request(request.key, request.version, 1, "1", request.message)


def test_a_replica_once_new_or_to_be_deleted_stays_so_within_the_batch() -> None:
    told = batch(one((1, 2), leading(1, [1])))
    for flag in (False, True, False):
        told.add_leader_and_isr(brokers(2), T0, is_new=flag)
        told.add_stop_replica(brokers(2), T0, delete=flag)
    requests = told.build()[BrokerId(2)]
    assert states(message(requests, ApiKey.LEADER_AND_ISR))[T0].is_new
    assert states(message(requests, ApiKey.STOP_REPLICA))[T0].delete_partition


def test_a_replica_may_be_new_on_one_broker_only() -> None:
    told = batch(one((1, 2), leading(1, [1])))
    told.add_leader_and_isr(brokers(1), T0)
    told.add_leader_and_isr(brokers(2), T0, is_new=True)
    is_new = {
        broker: states(message(requests, ApiKey.LEADER_AND_ISR))[T0].is_new
        for broker, requests in told.build().items()
        if ApiKey.LEADER_AND_ISR in keys(requests)
    }
    assert is_new == {1: False, 2: True}


def test_dead_brokers_are_skipped() -> None:
    told = batch(one((1, 4), leading(4, [4])))
    told.add_leader_and_isr(brokers(1, 4, -1), T0)
    requests = told.build()
    assert list(requests) == [1, 2, 3]
    assert message(requests[ME], ApiKey.LEADER_AND_ISR).live_leaders == ()


def test_a_broker_that_shuts_down_still_gets_requests() -> None:
    told = batch(one((1, 2), leading(2, [2]), shutting_down=(2,)))
    told.add_leader_and_isr(brokers(2), T0)
    requests = told.build()[BrokerId(2)]
    assert keys(requests) == [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA]
    assert [each.broker_id for each in message(requests, ApiKey.LEADER_AND_ISR).live_leaders] == [2]


def test_live_leaders_have_their_inter_broker_endpoints() -> None:
    told = RequestBatch(one((1, 2), leading(2, [2])), ME, inter_broker_listener="CLIENTS")
    told.add_leader_and_isr(brokers(1), T0)
    leaders = message(told.build()[ME], ApiKey.LEADER_AND_ISR).live_leaders
    assert leaders == (LeaderAndIsrLiveLeader(broker_id=2, host_name="outside", port=9002),)


def test_metadata_of_a_topic_under_deletion_has_no_leader() -> None:
    context = one((1, 2), leading(1, [1]))
    context.apply_deleting(["t"])
    told = batch(context)
    told.add_update_metadata(None, [T0])
    state = states(message(told.build()[ME], ApiKey.UPDATE_METADATA))[T0]
    assert (state.leader, state.leader_epoch, state.zk_version, state.isr) == (-2, 0, 0, (1,))


def test_metadata_of_all_partitions_omits_topics_under_deletion() -> None:
    state = (Assignment(brokers(1, 2)), leading(1, [1]))
    context = context_of({T0: state, T1: state, U0: state})
    context.apply_deleting(["t"])
    context.apply_deletion_begun("t")
    assert list(whole_topics(context)) == [(U0,)]


def test_metadata_of_all_partitions_goes_out_in_parts_of_whole_topics() -> None:
    state = (Assignment(brokers(1, 2)), leading(1, [1]))
    context = context_of(
        {TopicPartition(f"t{n}", index): state for n in range(5) for index in range(600)}
    )
    parts = list(whole_topics(context))
    assert [len(part) for part in parts] == [1200, 1200, 600]
    assert [each for part in parts for each in part] == list(context.partitions())


def test_a_broker_learns_of_the_live_brokers_without_any_topic() -> None:
    assert list(whole_topics(context_of({}))) == [()]


def test_metadata_of_no_partition_has_brokers_only() -> None:
    told = batch(one((1, 2), leading(1, [1])))
    told.add_update_metadata(None, ())
    requests = told.build()
    assert list(requests) == [1, 2, 3]
    told_of = message(requests[ME], ApiKey.UPDATE_METADATA)
    assert told_of.topic_states == ()
    assert [each.id for each in told_of.live_brokers] == [1, 2, 3]


def test_a_partition_that_never_had_a_leader_or_was_deleted_is_omitted() -> None:
    told = batch(one((1, 2), None))
    told.add_leader_and_isr(brokers(1, 2), T0)
    told.add_update_metadata(None, [U0])
    requests = told.build()
    assert keys(requests[ME]) == [ApiKey.UPDATE_METADATA]
    assert message(requests[ME], ApiKey.UPDATE_METADATA).topic_states == ()


def test_build_uses_the_newest_state_and_empties_the_batch() -> None:
    context = one((1, 2), leading(1, [1, 2]))
    told = batch(context)
    told.add_leader_and_isr(brokers(1), T0)
    context.apply_leadership(T0, PartitionLeadership(leading(1, [1], epoch=6), 41))
    state = states(message(told.build()[ME], ApiKey.LEADER_AND_ISR))[T0]
    assert (state.leader_epoch, state.partition_epoch, state.isr) == (6, 41, (1,))
    assert told.build() == {}


@given(contexts(), st.data())
def test_any_batch_has_for_each_live_broker_one_request_of_a_kind_in_order(
    context: Context, data: st.DataObject
) -> None:
    told = batch(context)
    partitions = [*context.partitions(), TopicPartition("gone", 0)]
    ids = st.lists(st.integers(-1, 6)).map(lambda each: brokers(*each))
    at = st.sampled_from(partitions)
    messages = (
        st.builds(LeaderAndIsrTo, ids, at, st.booleans())
        | st.builds(StopReplicaTo, ids, at, st.booleans())
        | st.builds(MetadataOf, at)
    )
    for each in data.draw(st.lists(messages)):
        told.add(each)
    order = [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA]
    for broker, requests in told.build().items():
        assert broker in context.live
        assert keys(requests) == [key for key in order if key in keys(requests)]
        for request in requests:
            assert request.message.broker_epoch == context.live[broker].epoch
            assert write_request(request.key, request.version, 1, "1", request.message)


def test_ten_thousand_partitions_are_built_once_for_all_brokers() -> None:
    partitions = [TopicPartition(f"t{each // 100}", each % 100) for each in range(10_000)]
    assignment = Assignment(brokers(1, 2, 3))
    told = batch(context_of({each: (assignment, leading(1, [1, 2, 3])) for each in partitions}))
    for partition in partitions:
        told.add_leader_and_isr(brokers(1, 2, 3), partition)
    requests = told.build()
    for key in (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA):
        first, *others = (states(message(requests[b], key)) for b in brokers(1, 2, 3))
        assert len(first) == 10_000
        for other in others:
            assert all(other[each] is first[each] for each in partitions)
