"""A whole cluster from a seed: its brokers, their network, disks, clocks and coordination tree."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from barnabas.base.safeguards import Safeguards
from barnabas.sim.checkers.history import History
from barnabas.sim.trace import Listener, Story
from barnabas.sim.world.machine import Machine, Surroundings
from barnabas.sim.world.onlooker import Onlooker
from barnabas.sim.world.seed_settings import Setting, broker_stream, stream
from barnabas.sim.world.sim_clocks import SimClock
from barnabas.sim.world.sim_loop import Host, SimLoop
from barnabas.sim.world.sim_network import Network
from barnabas.sim.world.sim_tree import Ensemble

# How often the world is looked at, and brokers that ended by themselves are started again.
LOOK_S: Final = 0.25
STARTED_AGAIN_S: Final = 1.5
SERVES_WITHIN_S: Final = 60.0


class World:
    """Made of one seed; use it in a `with`, so that nothing of it outlives the run."""

    def __init__(self, setting: Setting, safeguards: Safeguards | None = None) -> None:
        seed = setting.seed
        self.setting = setting
        self.loop = SimLoop()
        self.loop.set_exception_handler(self._on_exception)
        self.network = self.loop.network = Network(self.loop, stream(seed, "network"))
        self.ensemble = Ensemble(broker_stream(seed, "coordination"), setting.session_timeout_s)
        self.story = Story(self.loop.time)
        self.network.on_arrival = self.story.arrived
        self.history = History(self.loop.time)
        self.broken: list[str] = []
        self.injected: Counter[str] = Counter()
        # How many faults that befall brokers are under way, and whether one of them is such that
        # no other may be.
        self.disturbances = 0
        self.is_delicate = False
        self._is_over = False
        around = Surroundings(
            self.loop,
            self.network,
            self.ensemble,
            self.story,
            safeguards or Safeguards(),
            self.on_broken,
        )
        self.machines = [self._machine(broker, around) for broker in range(setting.brokers)]
        self.onlooker = Onlooker(self.ensemble.tree.nodes, self.machines)
        self.clients: list[Host] = []
        self._listener = Listener(self.story, self.on_broken)

    def _machine(self, broker: int, around: Surroundings) -> Machine:
        random = broker_stream(self.setting.seed, f"broker {broker}")
        clock = SimClock(self.loop, random)
        return Machine(broker, self.setting.config(broker), clock, random, around)

    def __enter__(self) -> "World":
        self._listener.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.loop.close()
        finally:
            self._listener.__exit__()

    def client(self, name: str) -> Host:
        """A host for one more client."""
        self.clients.append(self.loop.boot(name))
        return self.clients[-1]

    def chance(self, name: str) -> Random:
        """A source of chance for one use."""
        return stream(self.setting.seed, name)

    # -- what goes wrong -----------------------------------------------------

    def on_broken(self, what: str) -> None:
        """A law does not hold: the run has failed, and goes on for what else it may show."""
        if what not in self.broken:
            self.broken.append(what)
            self.story.tell("checks", f"LAW BROKEN: {what}")

    def look(self) -> None:
        """Check what must hold at every moment."""
        for broken in self.onlooker.broken_laws():
            self.on_broken(broken)

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.on_broken(f"{self.loop.running_host}: {context['message']}: {error!r}")

    # -- what an onlooker does -----------------------------------------------

    async def start(self) -> None:
        """Start all brokers, and return when they serve."""
        for machine in self.machines:
            machine.start()
        self.loop.spawn(None, self._watch())
        if not await self.until(
            lambda: all(each.broker for each in self.machines), SERVES_WITHIN_S
        ):
            self.on_broken("the brokers do not start")

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait for something to be so; whether it came to be in time."""
        deadline = self.loop.time() + within_s
        while not condition():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(LOOK_S / 2)
        return True

    def conclude(self) -> None:
        """End every fault for good: from now on brokers that lack a folder start again, too."""
        self._is_over = True
        self.heal()

    def heal(self) -> None:
        """End every fault, whoever caused it; brokers that are down start."""
        self.network.heal()
        self.ensemble.start()
        for machine in self.machines:
            self.ensemble.heal(machine.name)
            machine.mend()
            if machine.is_paused:
                machine.resume()
            machine.is_taken_down = False
        self.story.tell("simulation", "all faults end")

    async def _watch(self) -> None:
        """Look at the world again and again, and start brokers that ended by themselves."""
        ended: dict[str, float] = {}
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()
            for machine in self.machines:
                if self._is_over and machine.broker is not None and machine.broker.logs.offline:
                    machine.stop()
                if machine.is_running or machine.is_taken_down:
                    ended.pop(machine.name, None)
                elif ended.setdefault(machine.name, self.loop.time()) < (
                    self.loop.time() - STARTED_AGAIN_S
                ):
                    del ended[machine.name]
                    machine.start()
