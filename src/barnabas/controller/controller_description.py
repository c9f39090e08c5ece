"""The controller's description of itself: plain data for people and for checkers."""

from typing import Any

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import NO_LEADER, Context
from barnabas.controller.decide.leader_balancing import led_by_others
from barnabas.controller.handle.active_controller import ActiveController
from barnabas.controller.queue import EventQueue
from barnabas.controller.states import PartitionState


def describe_queue(queue: EventQueue) -> dict[str, Any]:
    return {
        "queue": {"length": len(queue), "oldest_ms": queue.oldest_ms()},
        "events": [handled._asdict() for handled in queue.handled],
    }


def describe_counts(context: Context) -> dict[str, int]:
    return {
        "brokers": len(context.live),
        "topics": len(context.topics),
        "partitions": sum(len(topic.partitions) for topic in context.topics.values()),
        "offline_partitions": sum(
            state is not PartitionState.ONLINE and not context.is_deleting(partition.topic)
            for partition, state in context.partition_states.items()
        ),
        "preferred_imbalance": len(led_by_others(context)),
        "reassigning": len(context.reassigning()),
        "deleting": len(context.deleting),
    }


def describe_brokers(active: ActiveController) -> dict[str, Any]:
    context, channels = active.context, active.channels.states()
    return {
        str(broker): {
            "epoch": live.epoch,
            "state": "shutting down" if broker in context.shutting_down else "alive",
            "channel": channels[broker]._asdict() if broker in channels else None,
        }
        for broker, live in context.live.items()
    }


def describe_partitions(context: Context) -> dict[str, Any]:
    """Every partition in the context, for comparison with znodes and brokers."""
    return {str(each): _partition(context, each) for each in context.partitions()}


def _partition(context: Context, partition: TopicPartition) -> dict[str, Any]:
    assignment, leadership = context.assignment(partition), context.leadership.get(partition)
    return {
        "replicas": list(assignment.replicas),
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
        "leader": leadership.state.leader if leadership else NO_LEADER,
        "leader_epoch": leadership.state.leader_epoch if leadership else -1,
        "isr": list(leadership.state.isr) if leadership else [],
        "version": leadership.version if leadership else -1,
        "state": context.state_of(partition).value,
    }
