"""The handlers of the active controller's events, in one table."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from barnabas.controller import events
from barnabas.controller.handle import on_brokers, on_partitions, on_reassignments, on_topics
from barnabas.controller.handle.active_controller import ActiveController

Handler: TypeAlias = Callable[[ActiveController, Any], Awaitable[Any]]

HANDLERS: Final[Mapping[type[events.Event], Handler]] = {
    events.BrokersChanged: on_brokers.on_brokers_changed,
    events.BrokerModified: on_brokers.on_broker_modified,
    events.ControlledShutdown: on_brokers.on_controlled_shutdown,
    events.LogDirNotified: on_brokers.on_log_dir_notified,
    events.ReplicasFailed: on_brokers.on_replicas_failed,
    events.TopicsChanged: on_topics.on_topics_changed,
    events.PartitionsChanged: on_topics.on_partitions_changed,
    events.DeletionsChanged: on_topics.on_deletions_changed,
    events.ReplicasDeleted: on_topics.on_replicas_deleted,
    events.ElectLeaders: on_partitions.on_elect_leaders,
    events.PreferredElectionNode: on_partitions.on_preferred_election_node,
    events.BalanceDue: on_partitions.on_balance_due,
    events.UncleanAllowed: on_partitions.on_unclean_allowed,
    events.IsrNotified: on_partitions.on_isr_notified,
    events.AlterPartition: on_partitions.on_alter_partition,
    events.ReassignmentNode: on_reassignments.on_reassignment_node,
    events.AlterReassignments: on_reassignments.on_alter_reassignments,
    events.ListReassignments: on_reassignments.on_list_reassignments,
    events.ReassignedIsrChanged: on_reassignments.on_reassigned_isr_changed,
}
