"""One run: a cluster, its clients and its faults from a seed, and what came of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.base.safeguards import Safeguards
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.checkers.final_read import read_all
from barnabas.sim.faults.fault_kinds import KINDS, Fault
from barnabas.sim.faults.fault_plan import Faults
from barnabas.sim.trace import Line
from barnabas.sim.workloads.chosen_workloads import choose
from barnabas.sim.world.seed_settings import Setting, broker_stream
from barnabas.sim.world.sim_loop import BEGIN_S
from barnabas.sim.world.sim_world import World

# How long the cluster may take to be whole once nothing is wrong any more, and clients to end.
WHOLE_WITHIN_S: Final = 120.0
ENDED_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Report:
    """What one seed showed; `digest` is the same for the same history, and for no other."""

    seed: int
    broken: tuple[str, ...]
    faults: Counter[str]
    operations: int
    simulated_s: float
    steps: int
    digest: str
    lines: tuple[Line, ...]


def run(
    setting: Setting, safeguards: Safeguards | None = None, kinds: Sequence[Fault] = KINDS
) -> Report:
    """Play one seed from its beginning to its end, with faults of these kinds."""
    with World(setting, safeguards) as world:
        world.loop.run_until_complete(world.loop.spawn(None, _play(world, kinds)))
        for line in world.history.lines():
            world.story.note(line)
        return Report(
            setting.seed,
            tuple(world.broken),
            world.injected,
            len(world.history.operations),
            world.loop.time() - BEGIN_S,
            world.loop.steps,
            world.story.digest,
            tuple(world.story.lines),
        )


async def _play(world: World, kinds: Sequence[Fault]) -> None:
    await world.start()
    random = broker_stream(world.setting.seed, "workloads")
    chosen = choose(world.setting.bootstrap, random, world.history)
    working = [world.loop.spawn(world.client(each.name), each.run()) for each in chosen]
    await Faults(world, kinds).run(world.setting.duration_s)
    world.conclude()
    for each in chosen:
        each.stop()
    if not await world.until(lambda: all(task.done() for task in working), ENDED_WITHIN_S):
        world.on_broken("clients do not come to an end")
    for each, task in zip(chosen, working, strict=True):
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            world.on_broken(f"{each.name} has a bug: {error!r}")
    if not await world.until(lambda: world.onlooker.what_is_missing() is None, WHOLE_WITHIN_S):
        world.on_broken(f"the cluster is not whole again: {world.onlooker.what_is_missing()}")
        return
    final = await world.loop.spawn(world.client("the-end"), read_all(world))
    world.look()
    for violation in check(world.history, final):
        world.on_broken(str(violation))
