"""What a broker that does not answer need not hear any more: what a later request says anew.

So the queue to a broker that hangs is bounded by what there is to know, however long it hangs.
Of a partition only the last word in LeaderAndIsr and the last in UpdateMetadata stays, where it
stands: nothing changes its place. StopReplica stays whole: its answer is waited for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from barnabas.base.ids import TopicPartition
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.wire.apis import ApiKey


def without_superseded(requests: Iterable[ControlRequest]) -> list[ControlRequest]:
    """The same requests in their order, without what later ones make needless."""
    waiting, kept = list(requests), list[ControlRequest]()
    new = frozenset(_new_replicas(waiting))
    later: dict[ApiKey, set[TopicPartition]] = {}
    for request in reversed(waiting):
        if request.key is ApiKey.STOP_REPLICA:
            kept.append(request)
            continue
        is_last = request.key not in later
        told = later.setdefault(request.key, set())
        topics = tuple(_untold(request.message, told, new))
        # The last one stays even if it tells of no partition: it tells who is alive.
        if topics or is_last:
            kept.append(request._replace(message=replace(request.message, topic_states=topics)))
    return kept[::-1]


def _untold(
    message: Any, told: set[TopicPartition], new: frozenset[TopicPartition]
) -> Iterator[Any]:
    """The topics of a message with the partitions that are not told of later; these are now."""
    for topic in message.topic_states:
        states = []
        for state in topic.partition_states:
            partition = TopicPartition(topic.topic_name, state.partition_index)
            if partition not in told:
                told.add(partition)
                is_new = hasattr(state, "is_new") and partition in new
                states.append(replace(state, is_new=True) if is_new else state)
        if states:
            yield replace(topic, partition_states=tuple(states))


def _new_replicas(requests: Iterable[ControlRequest]) -> Iterator[TopicPartition]:
    """Those that the broker may make anew: it must hear so in whatever is left."""
    for request in requests:
        if request.key is ApiKey.LEADER_AND_ISR:
            for topic in request.message.topic_states:
                for state in topic.partition_states:
                    if state.is_new:
                        yield TopicPartition(topic.topic_name, state.partition_index)
