"""What a controller tells of itself, as plain data for people and for checkers."""

from typing import Any

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import NO_LEADER, Context
from barnabas.controller.controller_epoch import Reign
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
        "preferred_imbalance": len(strayed(context)),
        "reassigning": len(context.reassigning()),
        "deleting": len(context.deleting),
    }


def strayed(context: Context) -> list[TopicPartition]:
    """The partitions that another than the preferred replica leads."""
    return [
        partition
        for partition, led in context.led.items()
        if partition in context
        and not context.is_deleting(partition.topic)
        and led.state.leader != context.assignment(partition).replicas[0]
    ]


def describe_brokers(reign: Reign) -> dict[str, Any]:
    context, channels = reign.context, reign.channels.states()
    return {
        str(broker): {
            "epoch": live.epoch,
            "state": "shutting down" if broker in context.shutting_down else "alive",
            "channel": channels[broker]._asdict() if broker in channels else None,
        }
        for broker, live in context.live.items()
    }


def describe_partitions(context: Context) -> dict[str, Any]:
    """Every partition as the context knows it, to be compared with znodes and brokers."""
    return {str(each): _partition(context, each) for each in context.partitions()}


def _partition(context: Context, partition: TopicPartition) -> dict[str, Any]:
    assignment, led = context.assignment(partition), context.led.get(partition)
    return {
        "replicas": list(assignment.replicas),
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
        "leader": led.state.leader if led else NO_LEADER,
        "leader_epoch": led.state.leader_epoch if led else -1,
        "isr": list(led.state.isr) if led else [],
        "version": led.version if led else -1,
        "state": context.state_of(partition).value,
    }
