"""What the brokers are to be told after a decision, gathered into one round of requests each.

A broker gets at most one LeaderAndIsr, one UpdateMetadata and one StopReplica, in this order.
Only who and which partitions are kept here; what is said of a partition is read from the context
when the requests are built, so it is the newest, and made once for all brokers.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from barnabas.base.ids import NO_LEADER_EPOCH, BrokerId, TopicPartition
from barnabas.config.listeners import SECURITY_PROTOCOLS
from barnabas.controller.context import LEADER_DURING_DELETE, Context, LiveBroker
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
    """One request to one broker, with the version it is to be sent in."""

    key: ApiKey
    version: int
    message: Any


class LeaderAndIsrTo(NamedTuple):
    """Tell replicas who leads, and every broker the metadata of it."""

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition
    is_new: bool = False


class StopReplicaTo(NamedTuple):
    """Tell brokers to stop their replica, and perhaps to delete it."""

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition
    delete: bool = False


class MetadataOf(NamedTuple):
    """Tell every broker the metadata of a partition."""

    partition: TopicPartition


Message: TypeAlias = LeaderAndIsrTo | StopReplicaTo | MetadataOf


class RequestBatch:
    """Gathers what to tell; brokers that are not alive when it is built are passed over."""

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

    def add(self, message: Message) -> None:
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
        """Also adds the partition's metadata, for every broker. A replica once new stays so."""
        for broker in brokers:
            of = self._leaders.setdefault(broker, {})
            of[partition] = is_new or of.get(partition, False)
        self._metadata_to_all = True
        self._metadata_of[partition] = None

    def add_stop_replica(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, delete: bool = False
    ) -> None:
        """A replica once to be deleted stays so."""
        for broker in brokers:
            of = self._stops.setdefault(broker, {})
            of[partition] = delete or of.get(partition, False)

    def add_update_metadata(
        self, brokers: Iterable[BrokerId] | None, partitions: Iterable[TopicPartition] | None
    ) -> None:
        """None is every broker, every partition that is not being deleted.

        All that are told are told of the same.
        """
        if brokers is None:
            self._metadata_to_all = True
        else:
            self._metadata_to.update(dict.fromkeys(brokers))
        told = self._all_that_stay() if partitions is None else partitions
        self._metadata_of.update(dict.fromkeys(told))

    def _all_that_stay(self) -> Iterator[TopicPartition]:
        for topic in self._context.topics:
            if topic not in self._context.deletion_begun:
                yield from self._context.partitions_of(topic)

    def build(self) -> dict[BrokerId, list[ControlRequest]]:
        """The requests for each broker, to be sent in their order; the batch is empty then."""
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
        for broker, told in self._living(self._leaders):
            by_topic: ByTopic[LeaderAndIsrPartitionState] = {}
            for each in told.items():
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
        """None if nobody was ever elected, or the partition is no more."""
        led = self._context.led.get(partition)
        if led is None or partition not in self._context:
            return None
        assignment = self._context.assignment(partition)
        return LeaderAndIsrPartitionState(
            partition_index=partition.partition,
            controller_epoch=led.state.controller_epoch,
            leader=led.state.leader,
            leader_epoch=led.state.leader_epoch,
            isr=led.state.isr,
            partition_epoch=led.version,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            is_new=is_new,
            leader_recovery_state=int(led.state.recovering),
        )

    def _leader_and_isr(
        self, broker: LiveBroker, by_topic: ByTopic[LeaderAndIsrPartitionState]
    ) -> ControlRequest:
        leaders = {state.leader for states in by_topic.values() for state in states}
        # `type` stays unknown, as in Kafka: only what migrates a cluster to KRaft says more.
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
        told = self._context.live if self._metadata_to_all else self._metadata_to
        if not told:
            return
        topics = tuple(self._metadata())
        live = tuple(_live_broker(each) for each in self._context.live.values())
        for broker, _ in self._living(told):
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
        """None if nobody was ever elected, or the partition is no more."""
        context, led = self._context, self._context.led.get(partition)
        if led is None or partition not in context:
            return None
        deleting = context.is_deleting(partition.topic)
        replicas = context.assignment(partition).replicas
        return UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=led.state.controller_epoch,
            leader=LEADER_DURING_DELETE if deleting else led.state.leader,
            leader_epoch=0 if deleting else led.state.leader_epoch,
            isr=led.state.isr,
            zk_version=0 if deleting else led.version,
            replicas=replicas,
            offline_replicas=tuple(b for b in replicas if not context.is_available(b, partition)),
        )

    # -- StopReplica ---------------------------------------------------------

    def _stop_replica_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        for broker, told in self._living(self._stops):
            by_topic: ByTopic[StopReplicaPartitionState] = {}
            for partition, delete in told.items():
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
        led = self._context.led.get(partition)
        return NO_LEADER_EPOCH if led is None else led.state.leader_epoch

    # -- of all --------------------------------------------------------------

    def _living(self, told: Mapping[BrokerId, T]) -> Iterator[tuple[LiveBroker, T]]:
        for broker, what in told.items():
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
