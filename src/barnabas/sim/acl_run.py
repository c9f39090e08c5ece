"""One run of a seed in which ACLs change under the load of all other clients."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from barnabas.base.safeguards import Safeguards
from barnabas.sim.checkers.acl_checker import RightsChecker
from barnabas.sim.faults.fault_kinds import KINDS, Fault
from barnabas.sim.sim_run import Report, run
from barnabas.sim.workloads.acl_workload import NAME, AclWorkload
from barnabas.sim.world.seed_settings import SeedSettings, broker_stream
from barnabas.sim.world.sim_world import SimWorld

# Brokers that are cut off from the tree get no notification, as in Kafka: they decide by the ACLs
# that they know. So these faults leave the tree alone.
ACL_FAULTS: Final[tuple[Fault, ...]] = tuple(
    fault
    for fault in KINDS
    if fault.kind
    in ("broker killed", "broker stopped and started", "connections reset", "slow link")
)


def run_with_acls(
    settings: SeedSettings,
    safeguards: Safeguards | None = None,
    kinds: Sequence[Fault] = ACL_FAULTS,
    checkers: list[RightsChecker] | None = None,
) -> Report:
    """Run one seed; `checkers` gets the one that watched it."""

    def watch(world: SimWorld) -> None:
        checker = RightsChecker(world.on_broken)
        random = broker_stream(settings.seed, "acls")
        workload = AclWorkload(settings.bootstrap, random, checker)
        world.loop.spawn(world.client(NAME), workload.run())
        if checkers is not None:
            checkers.append(checker)

    return run(replace(settings, has_acls=True), safeguards, kinds, watch)
