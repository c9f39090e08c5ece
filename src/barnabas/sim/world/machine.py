"""A broker's machine over all its lives: started, stopped, killed, powered off, paused."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field

from barnabas.base.errors import BarnabasError, DiskFault, LawBroken
from barnabas.base.randomness import Random
from barnabas.base.safeguards import Safeguards
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.broker import Broker
from barnabas.server.compose import Environment, RunningBroker, start
from barnabas.sim.trace import Story
from barnabas.sim.world.sim_clocks import SimClock, SimStopwatch
from barnabas.sim.world.sim_disk import SimDisk, SimOffload
from barnabas.sim.world.sim_loop import Host, SimLoop
from barnabas.sim.world.sim_network import Network
from barnabas.sim.world.sim_tree import Ensemble


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all machines of a world share; `on_broken` is told of laws that did not hold."""

    loop: SimLoop
    network: Network
    ensemble: Ensemble
    story: Story
    safeguards: Safeguards
    on_broken: Callable[[str], None]


@dataclass(slots=True)
class _Life:
    host: Host
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    running: RunningBroker | None = None
    has_ended: bool = False


class Machine:
    """All methods are for the simulation itself, and do at once what they say."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        clock: SimClock,
        random: Random,
        around: Surroundings,
    ) -> None:
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.offload = SimOffload(random)
        self._usual_ms = self.offload.most_ms
        self.disks = {folder: SimDisk(folder, random, clock) for folder in config.log_dirs()}
        self.clock = clock
        # Whether someone will start it again, so that nobody else does.
        self.is_taken_down = False
        self._config = config
        self._random = random
        self._around = around
        self._life: _Life | None = None
        self._had_failed: dict[str, DiskFault] = {}

    # -- what there is -------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a process is there, also one that is paused, or is just starting."""
        return self._life is not None and not self._life.has_ended

    @property
    def is_paused(self) -> bool:
        return self._life is not None and self._life.host.is_paused

    @property
    def is_stopping(self) -> bool:
        """Whether the process is on its way to its end, though its broker may serve still."""
        return self._life is not None and self._life.stop.is_set() and not self._life.has_ended

    @property
    def broker(self) -> Broker | None:
        """The broker inside, if there is one that serves."""
        if self._life is None or self._life.has_ended or self._life.running is None:
            return None
        return self._life.running.broker

    # -- what happens to it --------------------------------------------------

    def start(self) -> None:
        """Begin another life, unless there is one; `broker` tells when it serves."""
        self.is_taken_down = False
        if self.is_running:
            return
        self._around.network.up(self.name)
        self._move_aside()
        life = _Life(self._around.loop.boot(self.name))
        self._life = life
        self._around.loop.spawn(life.host, self._live(life))

    def stop(self) -> None:
        """Ask the broker to stop, as SIGTERM does; `is_running` tells when it has."""
        if self._life is not None:
            self._life.stop.set()

    def kill(self) -> None:
        """End the process, as SIGKILL does: what it wrote stays written."""
        self.is_taken_down = True
        self._end(silently=False)
        self._remount()

    def power_off(self) -> None:
        """End the machine: what was not flushed is lost, and nobody is told."""
        self.is_taken_down = True
        self._end(silently=True)
        self.disks = {folder: disk.crash() for folder, disk in self.disks.items()}

    def pause(self) -> None:
        self._around.loop.pause(self.name)

    def resume(self) -> None:
        self._around.loop.resume(self.name)

    def mend(self) -> None:
        """Let its disks do what they shall, from now on."""
        self.offload.most_ms = self._usual_ms
        for disk in self.disks.values():
            disk.mend()

    def _move_aside(self) -> None:
        """What an operator does where a broker has made anew what lies in a folder that failed."""
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
        if self._life is not None:
            if self._life.running is not None:
                self._had_failed |= self._life.running.broker.logs.offline
            self._life.has_ended = True
            self._around.loop.crash(self.name)
        self._around.network.crash(self.name, silently=silently)

    # -- on its host ---------------------------------------------------------

    async def _live(self, life: _Life) -> None:
        environment = Environment(
            self.clock,
            self._random,
            self.offload,
            self.disks.__getitem__,
            coordination=lambda: self._around.ensemble.session(self.name),
            safeguards=self._around.safeguards,
            stopwatch=SimStopwatch(self._around.loop),
        )
        story = self._around.story
        try:
            life.running = await start(self._config, environment)
            story.tell(self.name, "serves")
            life.running.failed.add_done_callback(lambda _: life.stop.set())
            await life.stop.wait()
            if life.running.failed.done():
                self._failed(life.running.failed.result())
            await life.running.stop()
            story.tell(self.name, "has stopped")
        except LawBroken as broken:
            self._failed(broken)
        except BarnabasError as error:
            story.tell(self.name, f"does not start: {error}")
        life.has_ended = True
        # What is left of the process goes with it, from outside: this is still running in it.
        self._around.loop.call_soon(self._bury, life, context=Context())

    def _failed(self, error: BaseException) -> None:
        self._around.story.tell(self.name, f"fails: {error}")
        if isinstance(error, LawBroken):
            self._around.on_broken(f"{self.name}: {error}")
        elif not isinstance(error, BarnabasError):
            self._around.on_broken(f"{self.name} has a bug: {error!r}")

    def _bury(self, life: _Life) -> None:
        if self._life is life:
            self._end(silently=False)
            self._remount()


def logs_in(disk: SimDisk) -> list[str]:
    """The folders of partitions on a disk."""
    names = disk.list() if disk.status("") is not None else []
    return [name for name in names if disk.status(f"{name}/partition.metadata") is not None]
