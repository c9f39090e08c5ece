"""Superseded control requests: partition states that a later request in the queue repeats.

Removing them bounds the queue to a broker that hangs by the number of partitions. Of each
partition only the last state in LeaderAndIsr and the last in UpdateMetadata stays, in its place
in the queue. StopReplica requests stay whole: the controller waits for their responses.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from barnabas.base.ids import TopicPartition
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.wire.apis import ApiKey


def without_superseded(requests: Iterable[ControlRequest]) -> list[ControlRequest]:
    """The requests in their order, without the states that later ones supersede."""
    waiting, kept = list(requests), list[ControlRequest]()
    new = frozenset(_new_replicas(waiting))
    later_by_api: dict[ApiKey, set[TopicPartition]] = {}
    for request in reversed(waiting):
        if request.key is ApiKey.STOP_REPLICA:
            kept.append(request)
            continue
        is_last = request.key not in later_by_api
        later = later_by_api.setdefault(request.key, set())
        topics = tuple(_not_superseded(request.message, later, new))
        # The last one stays even without partitions: it carries the live brokers.
        if topics or is_last:
            kept.append(request._replace(message=replace(request.message, topic_states=topics)))
    return kept[::-1]


def _not_superseded(
    message: Any, later: set[TopicPartition], new: frozenset[TopicPartition]
) -> Iterator[Any]:
    """The topics of a message with the partitions not in `later`, which then contains them."""
    for topic in message.topic_states:
        states = []
        for state in topic.partition_states:
            partition = TopicPartition(topic.topic_name, state.partition_index)
            if partition not in later:
                later.add(partition)
                is_new = hasattr(state, "is_new") and partition in new
                states.append(replace(state, is_new=True) if is_new else state)
        if states:
            yield replace(topic, partition_states=tuple(states))


def _new_replicas(requests: Iterable[ControlRequest]) -> Iterator[TopicPartition]:
    """The replicas that the broker may create: what is left must still say so."""
    for request in requests:
        if request.key is ApiKey.LEADER_AND_ISR:
            for topic in request.message.topic_states:
                for state in topic.partition_states:
                    if state.is_new:
                        yield TopicPartition(topic.topic_name, state.partition_index)
