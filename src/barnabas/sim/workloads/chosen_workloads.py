"""Which clients a run has, as chance says."""

from collections.abc import Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import FADING, History
from barnabas.sim.clients.consumer_group_member import ConsumerMember
from barnabas.sim.workloads.admin_workload import Administering
from barnabas.sim.workloads.group_workload import Belonging
from barnabas.sim.workloads.workloads import Producing, Reading, Tailing, Workload

_ALL, _LEADER, _NONE = -1, 1, 0  # acks
ACKS: Final = (_ALL, _ALL, _ALL, _LEADER, _NONE)
TAILED: Final = (TopicPartition("orders", 0), TopicPartition(FADING, 0))


def choose(bootstrap: Sequence[Address], random: Random, history: History) -> list[Workload]:
    """The clients of one run; at least one producer wants to be sure of what it sends."""

    def own() -> Random:
        return Random(random.below(1 << 30))  # so that none changes what others draw

    quiet = not random.below(4)
    chosen: list[Workload] = [
        Administering("admin", bootstrap, own(), history, is_quiet=quiet),
        Producing("producer-0", bootstrap, own(), history, _ALL),
    ]
    chosen += [
        Producing(f"producer-{n}", bootstrap, own(), history, ACKS[random.below(len(ACKS))])
        for n in range(1, 2 + random.below(2))
    ]
    chosen += [
        Reading(f"reader-{n}", bootstrap, own(), history) for n in range(1 + random.below(2))
    ]
    if tailed := random.below(len(TAILED) + 1):
        chosen.append(Tailing("tail", bootstrap, own(), history, TAILED[tailed - 1]))
    members = random.below(4)
    chosen += [Belonging(f"member-{n}", bootstrap, own(), history, "group") for n in range(members)]
    chosen += [
        Belonging(f"newer-{n}", bootstrap, own(), history, "newer group", ConsumerMember)
        for n in range(random.below(4))
    ]
    return chosen
