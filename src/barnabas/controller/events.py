"""Everything that can make the controller act, as frozen data on one queue.

Watches, timers, requests and the answers of brokers only put events there; one task takes them
one at a time. An event of a client owns the future of its answer in the queue, not here.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.decide.steps import Selector


class Startup(NamedTuple):
    """The broker is registered: watch /controller and try to be it."""


class ControllerChanged(NamedTuple):
    """/controller was created, changed or deleted: resign if another is it, stand if nobody is."""


class SessionExpired(NamedTuple):
    """Our session is over, and all that rested on it: resign before anything else."""


class SessionRenewed(NamedTuple):
    """We have a new session, and the broker is registered in it: stand again."""


class BrokersChanged(NamedTuple):
    """The children of /brokers/ids changed."""


class BrokerModified(NamedTuple):
    """A broker wrote its znode anew: its endpoints changed."""

    broker_id: BrokerId


class TopicsChanged(NamedTuple):
    """The children of /brokers/topics changed."""


class PartitionsChanged(NamedTuple):
    """A topic's znode was written by another: partitions were added."""

    topic: str


class DeletionsChanged(NamedTuple):
    """The children of /admin/delete_topics changed."""


class ReplicasDeleted(NamedTuple):
    """A broker answered a StopReplica with deletion, or could not be asked."""

    broker_id: BrokerId
    codes: Mapping[TopicPartition, ErrorCode]


class ReassignmentNode(NamedTuple):
    """/admin/reassign_partitions was written."""


class AlterReassignments(NamedTuple):
    """A client asks to move partitions; None cancels. Answered with a code and text for each."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


class ListReassignments(NamedTuple):
    """A client asks what is being moved; None asks for all. Answered {partition: Assignment}."""

    partitions: tuple[TopicPartition, ...] | None


class ReassignedIsrChanged(NamedTuple):
    """The `state` of a partition that is being moved was written: perhaps it can go on."""

    partition: TopicPartition


class PreferredElectionNode(NamedTuple):
    """/admin/preferred_replica_election was written."""


class ElectLeaders(NamedTuple):
    """A client asks for elections; None asks for all. Answered with a code and text for each."""

    partitions: tuple[TopicPartition, ...] | None
    by: Selector  # PREFERRED or OFFLINE_UNCLEAN


class IsrNotified(NamedTuple):
    """The children of /isr_change_notification changed: leaders wrote new ISRs."""


class IsrWish(NamedTuple):
    """The ISR that a leader wants, and what it knows: its epoch, and that of the partition."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    recovering: bool = False  # from an unclean election


class AlterPartition(NamedTuple):
    """A leader asks that its ISR be changed (Kafka's brokers do, since 2.7).

    Answered for each partition with a code, or the Led now.
    """

    broker_id: BrokerId
    broker_epoch: int
    isrs: Mapping[TopicPartition, IsrWish]


class LogDirNotified(NamedTuple):
    """The children of /log_dir_event_notification changed: folders failed on some broker."""


class ReplicasAnswered(NamedTuple):
    """A broker answered LeaderAndIsr: what failed with KAFKA_STORAGE_ERROR is offline there."""

    broker_id: BrokerId
    codes: Mapping[TopicPartition, ErrorCode]


class ControlledShutdown(NamedTuple):
    """A broker is about to stop. Answered with the partitions that it still leads."""

    broker_id: BrokerId
    broker_epoch: int


class BalanceDue(NamedTuple):
    """The schedule says to look whether leaders should go home."""


class UncleanAllowed(NamedTuple):
    """A topic (None: the cluster's default) now allows unclean elections."""

    topic: str | None


Event: TypeAlias = (
    Startup
    | ControllerChanged
    | SessionExpired
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
    | ReplicasAnswered
    | ControlledShutdown
    | BalanceDue
    | UncleanAllowed
)
