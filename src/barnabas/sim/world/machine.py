"""The machine of one broker: start, stop, kill, power off, pause."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field

from barnabas.base.errors import BarnabasError, DiskFault, LawBroken
from barnabas.base.randomness import Random
from barnabas.base.safeguards import Safeguards
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.broker import Broker
from barnabas.server.compose import Environment, RunningBroker, start
from barnabas.sim.world.at_once_counts import count_at_once
from barnabas.sim.world.sim_clocks import SimClock, SimStopwatch
from barnabas.sim.world.sim_disk import SimDisk, SimOffload
from barnabas.sim.world.sim_loop import Host, SimLoop
from barnabas.sim.world.sim_network import SimNetwork
from barnabas.sim.world.sim_tree import Ensemble
from barnabas.sim.world.trace import Trace


@dataclass(frozen=True, slots=True)
class MachineEnvironment:
    """The environment shared by all machines; `on_broken` reports a broken law, `visited` counts
    what brokers do on the synchronous paths of sole replicas."""

    loop: SimLoop
    network: SimNetwork
    ensemble: Ensemble
    trace: Trace
    safeguards: Safeguards
    on_broken: Callable[[str], None]
    visited: Counter[str]


@dataclass(slots=True)
class _Process:
    host: Host
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    running: RunningBroker | None = None
    has_ended: bool = False


class Machine:
    """One broker's host, disks and clock, across restarts. Called by the simulation only."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        clock: SimClock,
        random: Random,
        environment: MachineEnvironment,
    ) -> None:
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.offload = SimOffload(random)
        self._usual_ms = self.offload.most_ms
        self.disks = {folder: SimDisk(folder, random, clock) for folder in config.log_dirs()}
        self.clock = clock
        # A fault has stopped the broker and will restart it.
        self.is_taken_down = False
        self._config = config
        self._random = random
        self._environment = environment
        self._process: _Process | None = None
        self._had_failed: dict[str, DiskFault] = {}

    # -- state ---------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """True if there is a process, even if paused or starting."""
        return self._process is not None and not self._process.has_ended

    @property
    def is_paused(self) -> bool:
        return self._process is not None and self._process.host.is_paused

    @property
    def is_stopping(self) -> bool:
        """True if the process is shutting down; its broker may still serve."""
        return (
            self._process is not None
            and self._process.stop.is_set()
            and not self._process.has_ended
        )

    @property
    def broker(self) -> Broker | None:
        """The broker, if it serves."""
        if self._process is None or self._process.has_ended or self._process.running is None:
            return None
        return self._process.running.broker

    # -- events --------------------------------------------------------------

    def start(self) -> None:
        """Start a process unless there is one; `broker` is set when it serves."""
        self.is_taken_down = False
        if self.is_running:
            return
        self._environment.network.up(self.name)
        self._move_aside()
        process = _Process(self._environment.loop.boot(self.name))
        self._process = process
        self._environment.loop.spawn(process.host, self._run(process))

    def stop(self) -> None:
        """Stop the broker, as SIGTERM does; `is_running` is False when it has."""
        if self._process is not None:
            self._process.stop.set()

    def kill(self) -> None:
        """Kill the process, as SIGKILL does: its writes survive."""
        self.is_taken_down = True
        self._end(silently=False)
        self._remount()

    def power_off(self) -> None:
        """Cut the power: unflushed writes are lost, and peers get no reset."""
        self.is_taken_down = True
        self._end(silently=True)
        self.disks = {folder: disk.crash() for folder, disk in self.disks.items()}

    def pause(self) -> None:
        self._environment.loop.pause(self.name)

    def resume(self) -> None:
        self._environment.loop.resume(self.name)

    def mend(self) -> None:
        """Remove all disk faults."""
        self.offload.most_ms = self._usual_ms
        for disk in self.disks.values():
            disk.mend()

    def _move_aside(self) -> None:
        """Remove logs from a failed log directory that the broker has created elsewhere since,
        as an operator does."""
        for folder in self._had_failed:
            elsewhere = [
                name
                for other, disk in self.disks.items()
                if other != folder
                for name in logs_in(disk)
            ]
            for name in logs_in(self.disks[folder]):
                if name in elsewhere:
                    self.disks[folder].remove(name)
        self._had_failed.clear()

    def _remount(self) -> None:
        self.disks = {folder: disk.killed() for folder, disk in self.disks.items()}

    def _end(self, silently: bool) -> None:
        if self._process is not None:
            if self._process.running is not None:
                self._had_failed |= self._process.running.broker.logs.offline
            self._process.has_ended = True
            self._environment.loop.crash(self.name)
        self._environment.network.crash(self.name, silently=silently)

    # -- on its host ---------------------------------------------------------

    async def _run(self, process: _Process) -> None:
        environment = Environment(
            self.clock,
            self._random,
            self.offload,
            self.disks.__getitem__,
            coordination=lambda: self._environment.ensemble.session(self.name),
            safeguards=self._environment.safeguards,
            stopwatch=SimStopwatch(self._environment.loop),
        )
        trace = self._environment.trace
        try:
            process.running = await start(self._config, environment)
            count_at_once(process.running.broker, self._environment.visited)
            trace.add(self.name, "serves")
            process.running.failed.add_done_callback(lambda _: process.stop.set())
            await process.stop.wait()
            if process.running.failed.done():
                self._failed(process.running.failed.result())
            await process.running.stop()
            trace.add(self.name, "has stopped")
        except LawBroken as broken:
            self._failed(broken)
        except BarnabasError as error:
            trace.add(self.name, f"does not start: {error}")
        process.has_ended = True
        # Called from outside of the host: this task still runs on it.
        self._environment.loop.call_soon(self._clean_up, process, context=Context())

    def _failed(self, error: BaseException) -> None:
        self._environment.trace.add(self.name, f"fails: {error}")
        if isinstance(error, LawBroken):
            self._environment.on_broken(f"{self.name}: {error}")
        elif not isinstance(error, BarnabasError):
            self._environment.on_broken(f"{self.name} failed: {error!r}")

    def _clean_up(self, process: _Process) -> None:
        if self._process is process:
            self._end(silently=False)
            self._remount()


def logs_in(disk: SimDisk) -> list[str]:
    """The directories of partitions on a disk."""
    names = disk.list() if disk.status("") is not None else []
    return [name for name in names if disk.status(f"{name}/partition.metadata") is not None]
