"""A step for very many, as several steps: so neither the loop nor a broker is held for long."""

from collections.abc import Iterable
from typing import Final

from barnabas.controller.steps import MovePartitions, MoveReplicas, RaiseLeaderEpochs, Step

_AT_ONCE: Final = 1000


def in_parts(step: Step) -> Iterable[Step]:
    """The same as `step`; partitions and replicas do not depend on each other within one."""
    match step:
        case MovePartitions(partitions) | RaiseLeaderEpochs(partitions):
            return [step._replace(partitions=partitions[some]) for some in _slices(partitions)]
        case MoveReplicas(replicas):
            return [step._replace(replicas=replicas[some]) for some in _slices(replicas)]
    return [step]


def _slices(whole: tuple[object, ...]) -> list[slice]:
    return [slice(start, start + _AT_ONCE) for start in range(0, len(whole), _AT_ONCE)]
