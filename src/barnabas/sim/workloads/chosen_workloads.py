"""The random choice of a run's clients."""

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import FADING, OperationHistory
from barnabas.sim.clients.consumer_group_member import SimConsumerMember
from barnabas.sim.workloads.admin_workload import LASTING, AdminWorkload
from barnabas.sim.workloads.group_workload import GroupWorkload
from barnabas.sim.workloads.transaction_workloads import (
    TRANSACTION_TOPICS,
    CommittedReadingWorkload,
    CopyWorkload,
    TransactionWorkload,
)
from barnabas.sim.workloads.workloads import (
    ProducingWorkload,
    ReadingWorkload,
    TailingWorkload,
    Workload,
)

_ALL, _LEADER, _NONE = -1, 1, 0  # acks
ACKS: Final = (_ALL, _ALL, _ALL, _LEADER, _NONE)
TAILED: Final = (TopicPartition("orders", 0), TopicPartition(FADING, 0))


def choose(
    bootstrap: Sequence[Address],
    random: Random,
    history: OperationHistory,
    transaction_version: int | None = None,
) -> list[Workload]:
    """The clients of one run; at least one producer uses acks=all.

    With a `transaction_version`, some clients use transactions.
    """

    def own() -> Random:
        return Random(random.below(1 << 30))  # own stream: clients do not affect each other

    quiet = not random.below(4)
    topics = LASTING if transaction_version is None else {**LASTING, **TRANSACTION_TOPICS}
    chosen: list[Workload] = [
        AdminWorkload("admin", bootstrap, own(), history, is_quiet=quiet, topics=topics),
        ProducingWorkload("producer-0", bootstrap, own(), history, _ALL),
    ]
    chosen += [
        ProducingWorkload(f"producer-{n}", bootstrap, own(), history, ACKS[random.below(len(ACKS))])
        for n in range(1, 2 + random.below(2))
    ]
    chosen += [
        ReadingWorkload(f"reader-{n}", bootstrap, own(), history)
        for n in range(1 + random.below(2))
    ]
    if tailed := random.below(len(TAILED) + 1):
        chosen.append(TailingWorkload("tail", bootstrap, own(), history, TAILED[tailed - 1]))
    members = random.below(4)
    chosen += [
        GroupWorkload(f"member-{n}", bootstrap, own(), history, "group") for n in range(members)
    ]
    chosen += [
        GroupWorkload(f"newer-{n}", bootstrap, own(), history, "newer group", SimConsumerMember)
        for n in range(random.below(4))
    ]
    if transaction_version is not None:
        chosen += _transactional(bootstrap, own, random, history, transaction_version)
    return chosen


def _transactional(
    bootstrap: Sequence[Address],
    own: Callable[[], Random],
    random: Random,
    history: OperationHistory,
    version: int,
) -> list[Workload]:
    """Producers, readers, and copiers of one transactional id, of which one is a zombie."""
    return [
        *(
            TransactionWorkload(f"payer-{n}", bootstrap, own(), history, version)
            for n in range(1 + random.below(2))
        ),
        *(
            CopyWorkload(f"copier-{n}", bootstrap, own(), history, version)
            for n in range(1 + random.below(2))
        ),
        CommittedReadingWorkload("auditor", bootstrap, own(), history),
    ]
