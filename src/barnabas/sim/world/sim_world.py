"""A simulated cluster from a seed: brokers, network, disks, clocks and znode tree."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from barnabas.base.safeguards import Safeguards
from barnabas.sim.checkers.history import OperationHistory
from barnabas.sim.world.cluster_observer import ClusterObserver
from barnabas.sim.world.machine import Machine, MachineEnvironment
from barnabas.sim.world.request_capture import RequestCapture
from barnabas.sim.world.seed_settings import SeedSettings, broker_stream, stream
from barnabas.sim.world.sim_clocks import SimClock
from barnabas.sim.world.sim_loop import Host, SimLoop
from barnabas.sim.world.sim_network import SimNetwork
from barnabas.sim.world.sim_tree import Ensemble
from barnabas.sim.world.trace import Trace, TraceHandler

# The interval of checks, and the delay before a broker that stopped by itself is restarted.
LOOK_S: Final = 0.25
STARTED_AGAIN_S: Final = 1.5
SERVES_WITHIN_S: Final = 60.0


class SimWorld:
    """The world of one seed; a context manager, so that nothing of it outlives the run."""

    def __init__(self, settings: SeedSettings, safeguards: Safeguards | None = None) -> None:
        seed = settings.seed
        self.settings = settings
        self.loop = SimLoop()
        self.loop.set_exception_handler(self._on_exception)
        self.network = self.loop.network = SimNetwork(self.loop, stream(seed, "network"))
        self.ensemble = Ensemble(broker_stream(seed, "coordination"), settings.session_timeout_s)
        self.trace = Trace(self.loop.time)
        self.captured = RequestCapture(self.trace.arrived)
        self.network.on_arrival = self.captured.arrived
        self.history = OperationHistory(self.loop.time)
        self.broken: list[str] = []
        self.injected: Counter[str] = Counter()
        self.visited: Counter[str] = Counter()
        # The number of active faults on brokers, and whether one of them forbids others.
        self.disturbances = 0
        self.is_delicate = False
        self._is_over = False
        environment = MachineEnvironment(
            self.loop,
            self.network,
            self.ensemble,
            self.trace,
            safeguards or Safeguards(),
            self.on_broken,
            self.visited,
        )
        self.machines = [self._machine(broker, environment) for broker in range(settings.brokers)]
        self.observer = ClusterObserver(self.ensemble.tree.nodes, self.machines)
        self.clients: list[Host] = []
        self._handler = TraceHandler(self.trace, self.on_broken)

    def _machine(self, broker: int, environment: MachineEnvironment) -> Machine:
        random = broker_stream(self.settings.seed, f"broker {broker}")
        clock = SimClock(self.loop, random)
        return Machine(broker, self.settings.config(broker), clock, random, environment)

    def __enter__(self) -> "SimWorld":
        self._handler.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.loop.close()
        finally:
            self._handler.__exit__()

    def client(self, name: str) -> Host:
        """Boot a host for another client."""
        self.clients.append(self.loop.boot(name))
        return self.clients[-1]

    def chance(self, name: str) -> Random:
        """A random stream for one use."""
        return stream(self.settings.seed, name)

    # -- broken laws ---------------------------------------------------------

    def on_broken(self, what: str) -> None:
        """Record a broken law; the run continues, to find others."""
        if what not in self.broken:
            self.broken.append(what)
            self.trace.add("checks", f"LAW BROKEN: {what}")

    def look(self) -> None:
        """Check the laws that must hold at every moment."""
        for broken in self.observer.broken_laws():
            self.on_broken(broken)

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.on_broken(f"{self.loop.running_host}: {context['message']}: {error!r}")

    # -- life cycle ----------------------------------------------------------

    async def start(self) -> None:
        """Start all brokers; return when they serve."""
        for machine in self.machines:
            machine.start()
        self.loop.spawn(None, self._watch())
        if not await self.until(
            lambda: all(each.broker for each in self.machines), SERVES_WITHIN_S
        ):
            self.on_broken("the brokers do not start")

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait for a condition; return whether it held in time."""
        deadline = self.loop.time() + within_s
        while not condition():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(LOOK_S / 2)
        return True

    def conclude(self) -> None:
        """End all faults; from now on, brokers with an offline log directory are restarted."""
        self._is_over = True
        self.heal()

    def heal(self) -> None:
        """End all faults and start brokers that are down."""
        self.network.heal()
        self.ensemble.start()
        for machine in self.machines:
            self.ensemble.heal(machine.name)
            machine.mend()
            if machine.is_paused:
                machine.resume()
            machine.is_taken_down = False
        self.trace.add("simulation", "all faults end")

    async def _watch(self) -> None:
        """Check the laws regularly, and restart brokers that stopped by themselves."""
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
