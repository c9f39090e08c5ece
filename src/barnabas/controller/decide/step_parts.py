"""A step for very many, as several steps: so neither the loop nor a broker is held for long."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from barnabas.controller.decide.steps import MovePartitions, MoveReplicas, RaiseLeaderEpochs, Step

T = TypeVar("T")

_AT_ONCE: Final = 1000


def in_parts(step: Step) -> Iterable[Step]:
    """The same as `step`; partitions do not depend on each other within one.

    Replicas of one partition that come one after the other stay together: they leave its ISR in
    one change. So do partitions of a topic, unless it is very large: whoever hears of a new topic
    shall know how many it has, and choose among all of them.
    """
    match step:
        case MovePartitions(partitions) | RaiseLeaderEpochs(partitions):
            return [
                step._replace(partitions=some) for some in _together(partitions, lambda p: p.topic)
            ]
        case MoveReplicas(replicas):
            return [
                step._replace(replicas=some)
                for some in _together(replicas, lambda replica: replica.topic_partition)
            ]
    return [step]


def _together(items: tuple[T, ...], of_what: Callable[[T], object]) -> Iterator[tuple[T, ...]]:
    start = 0
    while start < len(items):
        end = min(start + _AT_ONCE, len(items))
        most = min(start + 2 * _AT_ONCE, len(items))
        while end < most and of_what(items[end]) == of_what(items[end - 1]):
            end += 1
        yield items[start:end]
        start = end
