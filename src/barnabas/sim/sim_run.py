"""One run of a seed: start the cluster, run clients and faults, heal, check."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.base.safeguards import Safeguards
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.faults.fault_kinds import KINDS, Fault
from barnabas.sim.faults.fault_plan import FaultPlan
from barnabas.sim.final_read import read_all
from barnabas.sim.workloads.chosen_workloads import choose
from barnabas.sim.world.seed_settings import SeedSettings, broker_stream
from barnabas.sim.world.sim_loop import BEGIN_S
from barnabas.sim.world.sim_world import SimWorld
from barnabas.sim.world.trace import TraceLine

# Time limits after the last fault: for clients to finish, and for the cluster to be healthy.
HEALTHY_WITHIN_S: Final = 120.0
ENDED_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one seed; equal digests mean equal runs.

    `visited` counts what brokers did on paths that only some seeds take.
    """

    seed: int
    broken: tuple[str, ...]
    faults: Counter[str]
    operations: int
    simulated_s: float
    steps: int
    digest: str
    lines: tuple[TraceLine, ...]
    visited: Counter[str] = field(default_factory=Counter)


def run(
    settings: SeedSettings,
    safeguards: Safeguards | None = None,
    kinds: Sequence[Fault] = KINDS,
    watch: Callable[[SimWorld], None] | None = None,
) -> Report:
    """Run one seed to its end, with faults of these kinds; `watch` gets the world before it."""
    with SimWorld(settings, safeguards) as world:
        if watch is not None:
            watch(world)
        world.loop.run_until_complete(world.loop.spawn(None, _run(world, kinds)))
        for line in world.history.lines():
            world.trace.add_to_digest(line)
        return Report(
            settings.seed,
            tuple(world.broken),
            world.injected,
            len(world.history.operations),
            world.loop.time() - BEGIN_S,
            world.loop.steps,
            world.trace.digest,
            tuple(world.trace.lines),
            world.visited,
        )


async def _run(world: SimWorld, kinds: Sequence[Fault]) -> None:
    await world.start()
    random = broker_stream(world.settings.seed, "workloads")
    settings = world.settings
    chosen = choose(settings.bootstrap, random, world.history, settings)
    working = [world.loop.spawn(world.client(each.name), each.run()) for each in chosen]
    await FaultPlan(world, kinds).run(settings.duration_s)
    world.conclude()
    for each in chosen:
        each.stop()
    if not await world.until(lambda: all(task.done() for task in working), ENDED_WITHIN_S):
        world.on_broken("clients do not finish")
    for each, task in zip(chosen, working, strict=True):
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            world.on_broken(f"{each.name} failed: {error!r}")
    if not await world.until(lambda: world.observer.why_unhealthy() is None, HEALTHY_WITHIN_S):
        world.on_broken(f"the cluster does not recover: {world.observer.why_unhealthy()}")
        return
    final = await world.loop.spawn(world.client("the-end"), read_all(world))
    world.look()
    for violation in check(world.history, final):
        world.on_broken(str(violation))
