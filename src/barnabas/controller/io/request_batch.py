"""The request batch: the control requests that follow a decision, one round for each broker.

A broker gets at most one LeaderAndIsr, one UpdateMetadata and one StopReplica, in this order.
The batch keeps only brokers and partitions. It reads a partition's state from the context when it
builds the requests: the state is the newest, and is built once for all brokers.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from barnabas.base.ids import NO_LEADER_EPOCH, BrokerId, TopicPartition
from barnabas.config.listeners import SECURITY_PROTOCOLS
from barnabas.controller.context import LEADER_DURING_DELETE, Context, LiveBroker
from barnabas.controller.decide.steps import (
    ControlMessage,
    LeaderAndIsrTo,
    MetadataOf,
    StopReplicaTo,
)
from barnabas.wire.apis import ApiKey
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

# Sent with StopReplica in place of a leader epoch while the topic is being deleted.
EPOCH_DURING_DELETE: Final = -2

T = TypeVar("T")
ByTopic: TypeAlias = dict[str, list[T]]


class ControlRequest(NamedTuple):
    """One request to one broker, with its API version."""

    key: ApiKey
    version: int
    message: Any


class RequestBatch:
    """Collects control messages; `build` skips brokers that are not alive."""

    def __init__(
        self,
        context: Context,
        controller_id: BrokerId,
        *,
        inter_broker_listener: str = "PLAINTEXT",
    ) -> None:
        self._context = context
        self._controller_id = controller_id
        self._listener = inter_broker_listener
        self._clear()

    def _clear(self) -> None:
        self._leaders: dict[BrokerId, dict[TopicPartition, bool]] = {}
        self._stops: dict[BrokerId, dict[TopicPartition, bool]] = {}
        self._metadata_to: dict[BrokerId, None] = {}
        self._metadata_to_all = False
        self._metadata_of: dict[TopicPartition, None] = {}

    def add(self, message: ControlMessage) -> None:
        match message:
            case LeaderAndIsrTo(brokers, partition, is_new):
                self.add_leader_and_isr(brokers, partition, is_new)
            case StopReplicaTo(brokers, partition, delete):
                self.add_stop_replica(brokers, partition, delete)
            case MetadataOf(partition):
                self.add_update_metadata(None, (partition,))

    def add_leader_and_isr(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, is_new: bool = False
    ) -> None:
        """Also adds the partition's metadata for every broker. A new replica stays new."""
        for broker in brokers:
            of = self._leaders.setdefault(broker, {})
            of[partition] = is_new or of.get(partition, False)
        self._metadata_to_all = True
        self._metadata_of[partition] = None

    def add_stop_replica(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, delete: bool = False
    ) -> None:
        """A replica that is to be deleted stays so."""
        for broker in brokers:
            of = self._stops.setdefault(broker, {})
            of[partition] = delete or of.get(partition, False)

    def add_update_metadata(
        self, brokers: Iterable[BrokerId] | None, partitions: Iterable[TopicPartition]
    ) -> None:
        """None means every broker. All brokers receive the same partitions."""
        if brokers is None:
            self._metadata_to_all = True
        else:
            self._metadata_to.update(dict.fromkeys(brokers))
        self._metadata_of.update(dict.fromkeys(partitions))

    def build(self) -> dict[BrokerId, list[ControlRequest]]:
        """Return the requests for each broker, in sending order, and empty the batch."""
        requests: dict[BrokerId, list[ControlRequest]] = {}
        for broker, request in (
            *self._leader_and_isr_requests(),
            *self._update_metadata_requests(),
            *self._stop_replica_requests(),
        ):
            requests.setdefault(broker, []).append(request)
        self._clear()
        return requests

    # -- LeaderAndIsr --------------------------------------------------------

    def _leader_and_isr_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        states: dict[tuple[TopicPartition, bool], LeaderAndIsrPartitionState | None] = {}
        for broker, targets in self._living(self._leaders):
            by_topic: ByTopic[LeaderAndIsrPartitionState] = {}
            for each in targets.items():
                if each not in states:
                    states[each] = self._leadership(*each)
                state = states[each]
                if state is not None:
                    by_topic.setdefault(each[0].topic, []).append(state)
            if by_topic:
                yield broker.broker_id, self._leader_and_isr(broker, by_topic)

    def _leadership(
        self, partition: TopicPartition, is_new: bool
    ) -> LeaderAndIsrPartitionState | None:
        """None if no leader was ever elected, or the partition was deleted."""
        leadership = self._context.leadership.get(partition)
        if leadership is None or partition not in self._context:
            return None
        assignment = self._context.assignment(partition)
        return LeaderAndIsrPartitionState(
            partition_index=partition.partition,
            controller_epoch=leadership.state.controller_epoch,
            leader=leadership.state.leader,
            leader_epoch=leadership.state.leader_epoch,
            isr=leadership.state.isr,
            partition_epoch=leadership.version,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            is_new=is_new,
            leader_recovery_state=int(leadership.state.recovering),
        )

    def _leader_and_isr(
        self, broker: LiveBroker, by_topic: ByTopic[LeaderAndIsrPartitionState]
    ) -> ControlRequest:
        leaders = {state.leader for states in by_topic.values() for state in states}
        # `type` stays unknown, as in Kafka: only a migration to KRaft sets it.
        message = LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=broker.epoch,
            topic_states=tuple(
                LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=self._topic_id(topic),
                    partition_states=tuple(states),
                )
                for topic, states in by_topic.items()
            ),
            live_leaders=tuple(
                LeaderAndIsrLiveLeader(broker_id=live.broker_id, host_name=at.host, port=at.port)
                for live in self._context.live.values()
                if live.broker_id in leaders
                for at in live.registration.endpoints
                if at.listener == self._listener
            ),
        )
        return ControlRequest(ApiKey.LEADER_AND_ISR, 7, message)

    # -- UpdateMetadata ------------------------------------------------------

    def _update_metadata_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        targets = self._context.live if self._metadata_to_all else self._metadata_to
        if not targets:
            return
        topics = tuple(self._metadata())
        live = tuple(_live_broker(each) for each in self._context.live.values())
        for broker, _ in self._living(targets):
            message = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=broker.epoch,
                topic_states=topics,
                live_brokers=live,
            )
            yield broker.broker_id, ControlRequest(ApiKey.UPDATE_METADATA, 8, message)

    def _metadata(self) -> Iterator[UpdateMetadataTopicState]:
        by_topic: ByTopic[UpdateMetadataPartitionState] = {}
        for partition in self._metadata_of:
            state = self._metadata_state(partition)
            if state is not None:
                by_topic.setdefault(partition.topic, []).append(state)
        for topic, states in by_topic.items():
            yield UpdateMetadataTopicState(
                topic_name=topic, topic_id=self._topic_id(topic), partition_states=tuple(states)
            )

    def _metadata_state(self, partition: TopicPartition) -> UpdateMetadataPartitionState | None:
        """None if no leader was ever elected, or the partition was deleted."""
        context, leadership = self._context, self._context.leadership.get(partition)
        if leadership is None or partition not in context:
            return None
        deleting = context.is_deleting(partition.topic)
        replicas = context.assignment(partition).replicas
        return UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=leadership.state.controller_epoch,
            leader=LEADER_DURING_DELETE if deleting else leadership.state.leader,
            leader_epoch=0 if deleting else leadership.state.leader_epoch,
            isr=leadership.state.isr,
            zk_version=0 if deleting else leadership.version,
            replicas=replicas,
            offline_replicas=tuple(b for b in replicas if not context.is_available(b, partition)),
        )

    # -- StopReplica ---------------------------------------------------------

    def _stop_replica_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        for broker, targets in self._living(self._stops):
            by_topic: ByTopic[StopReplicaPartitionState] = {}
            for partition, delete in targets.items():
                state = StopReplicaPartitionState(
                    partition_index=partition.partition,
                    leader_epoch=self._epoch_to_stop_at(partition),
                    delete_partition=delete,
                )
                by_topic.setdefault(partition.topic, []).append(state)
            message = StopReplicaRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=broker.epoch,
                topic_states=tuple(
                    StopReplicaTopicState(topic_name=topic, partition_states=tuple(states))
                    for topic, states in by_topic.items()
                ),
            )
            yield broker.broker_id, ControlRequest(ApiKey.STOP_REPLICA, 4, message)

    def _epoch_to_stop_at(self, partition: TopicPartition) -> int:
        if self._context.is_deleting(partition.topic):
            return EPOCH_DURING_DELETE
        leadership = self._context.leadership.get(partition)
        return NO_LEADER_EPOCH if leadership is None else leadership.state.leader_epoch

    # -- of all --------------------------------------------------------------

    def _living(self, targets: Mapping[BrokerId, T]) -> Iterator[tuple[LiveBroker, T]]:
        for broker, what in targets.items():
            live = self._context.live.get(broker)
            if live is not None:
                yield live, what

    def _topic_id(self, topic: str) -> uuid.UUID | None:
        return self._context.topics[topic].topic_id


def _live_broker(live: LiveBroker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=live.broker_id,
        endpoints=tuple(
            UpdateMetadataEndpoint(
                port=at.port,
                host=at.host,
                listener=at.listener,
                security_protocol=SECURITY_PROTOCOLS.index(at.security_protocol),
            )
            for at in live.registration.endpoints
        ),
        rack=live.registration.rack,
    )
