"""The random choice of a run's clients."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import FADING, OperationHistory
from barnabas.sim.clients.consumer_group_member import SimConsumerMember
from barnabas.sim.workloads.admin_workload import LASTING, AdminWorkload
from barnabas.sim.workloads.group_workload import GroupWorkload
from barnabas.sim.workloads.moving_workload import MovingWorkload
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
from barnabas.sim.world.seed_settings import SeedSettings

_ALL, _LEADER, _NONE = -1, 1, 0  # acks
ACKS: Final = (_ALL, _ALL, _ALL, _LEADER, _NONE)
TAILED: Final = (TopicPartition("orders", 0), TopicPartition(FADING, 0))


def choose(
    bootstrap: Sequence[Address],
    random: Random,
    history: OperationHistory,
    settings: SeedSettings | None = None,
) -> list[Workload]:
    """The clients of one run, with transactions if the settings say so.

    Where partitions have a sole replica, no leader changes unless somebody moves them.
    """

    def own() -> Random:
        return Random(random.below(1 << 30))  # own stream: clients do not affect each other

    if settings is None or not settings.has_transactions:
        return _plain(bootstrap, own, random, history, LASTING)
    topics, factor = {**LASTING, **TRANSACTION_TOPICS}, settings.replication_factor
    chosen: list[Workload]
    if settings.is_light:
        chosen = [
            AdminWorkload(
                "admin",
                bootstrap,
                own(),
                history,
                is_quiet=True,
                topics=topics,
                replication_factor=factor,
            )
        ]
    else:
        chosen = _plain(bootstrap, own, random, history, topics, factor)
    chosen += _transactional(bootstrap, own, random, history, settings)
    if settings.is_sole and settings.brokers > 1:
        chosen.append(MovingWorkload("mover", bootstrap, own(), history))
    return chosen


def _plain(
    bootstrap: Sequence[Address],
    own: Callable[[], Random],
    random: Random,
    history: OperationHistory,
    topics: Mapping[str, int],
    replication_factor: int = 3,
) -> list[Workload]:
    """Clients without transactions; at least one producer uses acks=all."""
    quiet = not random.below(4)
    chosen: list[Workload] = [
        AdminWorkload(
            "admin",
            bootstrap,
            own(),
            history,
            is_quiet=quiet,
            topics=topics,
            replication_factor=replication_factor,
        ),
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
    return chosen


def _transactional(
    bootstrap: Sequence[Address],
    own: Callable[[], Random],
    random: Random,
    history: OperationHistory,
    settings: SeedSettings,
) -> list[Workload]:
    """Producers, a reader, and copiers: of one transactional id, of which one is a zombie, or one
    that hands over to the next process."""
    version, hands_over = settings.transaction_version, settings.hands_over
    payers: list[Workload] = [
        TransactionWorkload(f"payer-{n}", bootstrap, own(), history, version)
        for n in range(1 + random.below(2))
    ]
    copiers = [
        CopyWorkload(f"copier-{n}", bootstrap, own(), history, version, hands_over=hands_over)
        for n in range(1 + random.below(2))
    ]
    auditor = CommittedReadingWorkload("auditor", bootstrap, own(), history)
    return [*payers, *(copiers[:1] if hands_over else copiers), auditor]
