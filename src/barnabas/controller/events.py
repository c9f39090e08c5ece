"""Everything that can make the controller act, as frozen data on one queue.

Watches, timers, requests and the answers of brokers only put events there; one task takes them
one at a time. An event of a client owns the future of its answer in the queue, not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.steps import Selector


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker is registered: watch /controller and try to be it."""


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """/controller was created, changed or deleted: resign if another is it, stand if nobody is."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """Our session is over, and all that rested on it: resign before anything else."""


@dataclass(frozen=True, slots=True)
class SessionRenewed:
    """We have a new session, and the broker is registered in it: stand again."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """The children of /brokers/ids changed."""


@dataclass(frozen=True, slots=True)
class BrokerModified:
    """A broker wrote its znode anew: its endpoints changed."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The children of /brokers/topics changed."""


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """A topic's znode was written by another: partitions were added."""

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionsChanged:
    """The children of /admin/delete_topics changed."""


@dataclass(frozen=True, slots=True)
class ReplicasDeleted:
    """A broker answered a StopReplica with deletion, or could not be asked."""

    broker_id: BrokerId
    codes: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class ReassignmentNode:
    """/admin/reassign_partitions was written."""


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    """A client asks to move partitions; None cancels. Answered with a code and text for each."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """A client asks what is being moved; None asks for all. Answered {partition: Assignment}."""

    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignedIsrChanged:
    """The `state` of a partition that is being moved was written: perhaps it can go on."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class PreferredElectionNode:
    """/admin/preferred_replica_election was written."""


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """A client asks for elections; None asks for all. Answered with a code and text for each."""

    partitions: tuple[TopicPartition, ...] | None
    by: Selector  # PREFERRED or OFFLINE_UNCLEAN


@dataclass(frozen=True, slots=True)
class IsrNotified:
    """The children of /isr_change_notification changed: leaders wrote new ISRs."""


class IsrWish(NamedTuple):
    """The ISR that a leader wants, and what it knows: its epoch, and that of the partition."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    recovering: bool = False  # from an unclean election


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """A leader asks that its ISR be changed (Kafka's brokers do, since 2.7).

    Answered for each partition with a code, or the Led now.
    """

    broker_id: BrokerId
    broker_epoch: int
    isrs: Mapping[TopicPartition, IsrWish]


@dataclass(frozen=True, slots=True)
class LogDirNotified:
    """The children of /log_dir_event_notification changed: folders failed on some broker."""


@dataclass(frozen=True, slots=True)
class ReplicasAnswered:
    """A broker answered LeaderAndIsr: what failed with KAFKA_STORAGE_ERROR is offline there."""

    broker_id: BrokerId
    codes: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker is about to stop. Answered with the partitions that it still leads."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BalanceDue:
    """The schedule says to look whether leaders should go home."""


@dataclass(frozen=True, slots=True)
class UncleanAllowed:
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
