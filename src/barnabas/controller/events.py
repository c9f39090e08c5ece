"""The controller's events, as frozen data.

Watches, timers, requests and broker responses put events on the queue; one task handles them one
at a time. The queue, not the event, holds the future of a request's response.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.states import Selector


class Startup(NamedTuple):
    """The broker is registered: watch /controller and stand for election."""


class ControllerChanged(NamedTuple):
    """/controller changed: resign if another broker holds it, stand for election if none does."""


class SessionEnded(NamedTuple):
    """The tree session expired: resign before any other event is handled."""


class SessionRenewed(NamedTuple):
    """The broker is registered in a new session: stand for election again."""


class BrokersChanged(NamedTuple):
    """The children of /brokers/ids changed."""


class BrokerModified(NamedTuple):
    """A broker rewrote its registration: its endpoints changed."""

    broker_id: BrokerId


class TopicsChanged(NamedTuple):
    """The children of /brokers/topics changed."""


class PartitionsChanged(NamedTuple):
    """A topic's znode was written by somebody else: partitions were added."""

    topic: str


class DeletionsChanged(NamedTuple):
    """The children of /admin/delete_topics changed."""


class ReplicasDeleted(NamedTuple):
    """A broker responded to a StopReplica that deletes replicas."""

    broker_id: BrokerId
    codes: Mapping[TopicPartition, ErrorCode]


class ReassignmentNode(NamedTuple):
    """/admin/reassign_partitions was written."""


class AlterReassignments(NamedTuple):
    """A request to reassign partitions; None cancels. Returns an error or None for each."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


class ListReassignments(NamedTuple):
    """A request to list reassignments; None lists all. Returns {partition: Assignment}."""

    partitions: tuple[TopicPartition, ...] | None


class ReassignedIsrChanged(NamedTuple):
    """The `state` of partitions under reassignment was written: perhaps they can complete."""


class PreferredElectionNode(NamedTuple):
    """/admin/preferred_replica_election was written."""


class ElectLeaders(NamedTuple):
    """A request to elect leaders; None means all. Returns an error or None for each partition."""

    partitions: tuple[TopicPartition, ...] | None
    by: Selector  # PREFERRED or OFFLINE_UNCLEAN


class IsrNotified(NamedTuple):
    """The children of /isr_change_notification changed: leaders wrote new ISRs."""


class RequestedIsr(NamedTuple):
    """The ISR that a leader requests, with the leader epoch and partition epoch it knows."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    recovering: bool = False  # from an unclean election


class AlterPartition(NamedTuple):
    """A leader's request to change ISRs (Kafka's brokers send it since 2.7).

    Returns for each partition an error code, or its current leadership.
    """

    broker_id: BrokerId
    broker_epoch: int
    isrs: Mapping[TopicPartition, RequestedIsr]


class LogDirNotified(NamedTuple):
    """The children of /log_dir_event_notification changed: a broker lost a log directory."""


class ReplicasFailed(NamedTuple):
    """A LeaderAndIsr response has errors: replicas with KAFKA_STORAGE_ERROR are offline."""

    broker_id: BrokerId
    codes: Mapping[TopicPartition, ErrorCode]


class ControlledShutdown(NamedTuple):
    """A broker asks to shut down. Returns the partitions that it still leads."""

    broker_id: BrokerId
    broker_epoch: int


class BalanceDue(NamedTuple):
    """The interval between two checks of the leader balance has passed."""


class UncleanAllowed(NamedTuple):
    """A topic (None: the cluster's default) now allows unclean elections."""

    topic: str | None


Event: TypeAlias = (
    Startup
    | ControllerChanged
    | SessionEnded
    | SessionRenewed
    | BrokersChanged
    | BrokerModified
    | TopicsChanged
    | PartitionsChanged
    | DeletionsChanged
    | ReplicasDeleted
    | ReassignmentNode
    | AlterReassignments
    | ListReassignments
    | ReassignedIsrChanged
    | PreferredElectionNode
    | ElectLeaders
    | IsrNotified
    | AlterPartition
    | LogDirNotified
    | ReplicasFailed
    | ControlledShutdown
    | BalanceDue
    | UncleanAllowed
)
