"""Runs one process per broker: starts them together, sees which die, stops them together.

Everything here belongs to one event loop. A broker's pid file is there exactly as long as the
process that this supervisor started for it.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from barnabas.cli.cluster.cluster_dir import BrokerFiles
from barnabas.cli.exit_codes import CommandFailed

STOPPED_WITHIN_S: Final = 60.0
_TELL_EVERY_S: Final = 5.0
_SHOWN_LINES: Final = 15
_FIRST_BACK_OFF_S: Final = 1.0
_LONGEST_BACK_OFF_S: Final = 30.0
# A broker that ran so long had started well, and gets the first back-off again.
_RAN_WELL_S: Final = 60.0

Say = Callable[[str], None]


def server_command(files: BrokerFiles) -> list[str]:
    """What starts a broker, here and by hand."""
    return [sys.executable, "-m", "barnabas.cli.main", "server", "--config", str(files.properties)]


class BrokerDied(CommandFailed):
    """A broker ended before it was ready."""


class SupervisedBroker:
    """One broker, and the process that it is at the moment, if any."""

    def __init__(self, files: BrokerFiles, command: Sequence[str]) -> None:
        self.files = files
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Return once it is ready, however long its recovery takes.

        Raises  BrokerDied, no process left, if it ends first
        If cancelled the process is there, and for `stop` to end.
        """
        with self.files.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the supervisor, which then stops all
            )
        self.files.pid.write_text(f"{self._process.pid}\n")
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.startswith(b"ready"):
            how = await self.ended()
            raise BrokerDied(
                f"broker {self.files.broker_id} did not start: it {how}; see {self.files.log}"
            )

    async def ended(self) -> str:
        """Wait until the process has ended, forget it, and tell how it did."""
        assert self._process is not None
        code = await self._process.wait()
        self._process = None
        self.files.pid.unlink(missing_ok=True)
        return f"ended with code {code}" if code >= 0 else f"got {signal.Signals(-code).name}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if there is no process."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


class Supervisor:
    """The brokers of one cluster; `say` gets a line for each thing an operator should know."""

    def __init__(
        self,
        files: Sequence[BrokerFiles],
        *,
        restart: bool,
        say: Say,
        command: Callable[[BrokerFiles], list[str]] = server_command,
    ) -> None:
        self.brokers = [SupervisedBroker(each, command(each)) for each in files]
        self._restart = restart
        self._say = say
        self._watches: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all at once; return when all are ready.

        Raises  BrokerDied for the first that ends, after its last lines were shown; the others
                are for `stop` to end, as they are if this is cancelled
        """
        starts = {asyncio.create_task(each.start()): each for each in self.brokers}
        try:
            waiting = set(starts)
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=_TELL_EVERY_S, return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    self._show_if_dead(task, starts[task])
                if waiting:
                    self._say(f"starting: still waiting for {_names(starts[t] for t in waiting)}")
        finally:
            for task in starts:
                task.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        self._watches = [asyncio.create_task(self._watch(each)) for each in self.brokers]

    async def stop(self, within_s: float = STOPPED_WITHIN_S) -> bool:
        """SIGTERM for all at once, SIGKILL for what still runs after `within_s`.

        Nothing runs on return, and no pid file is left. Tells whether no SIGKILL was needed.
        """
        await self._unwatch()
        ends = {
            asyncio.create_task(each.ended()): each for each in self.brokers if each.pid is not None
        }
        for each in self.brokers:
            each.send(signal.SIGTERM)
            each.send(signal.SIGCONT)  # what was stopped takes no other signal
        deadline = asyncio.get_running_loop().time() + within_s
        waiting = set(ends)
        while waiting and (left_s := deadline - asyncio.get_running_loop().time()) > 0:
            _, waiting = await asyncio.wait(waiting, timeout=min(left_s, _TELL_EVERY_S))
            if waiting:
                self._say(f"stopping: still waiting for {_names(ends[t] for t in waiting)}")
            for task in waiting:
                ends[task].send(signal.SIGTERM)  # one that was just starting may have missed it
        if waiting:
            self._say(f"not stopped within {within_s:.0f} s: SIGKILL")
            self.kill()
            await asyncio.wait(waiting)
        return not waiting

    def kill(self) -> None:
        """SIGKILL for all; whoever waits for their end has it at once."""
        for each in self.brokers:
            each.send(signal.SIGKILL)

    def _show_if_dead(self, task: "asyncio.Task[None]", broker: SupervisedBroker) -> None:
        if (failure := task.exception()) is not None:
            for line in broker.files.last_lines(_SHOWN_LINES):
                self._say(f"  {line}")
            raise failure

    async def _watch(self, broker: SupervisedBroker) -> None:
        """Tell when the broker dies, and start it again if that is wanted."""
        loop, back_off_s = asyncio.get_running_loop(), _FIRST_BACK_OFF_S
        while True:
            started_s = loop.time()
            pid, how = broker.pid, await broker.ended()
            if not self._restart:
                again = f"start it again with: {_by_hand(broker.files)}"
                self._say(f"{_named(broker)} (pid {pid}) {how}; {again}")
                return
            if loop.time() - started_s >= _RAN_WELL_S:
                back_off_s = _FIRST_BACK_OFF_S
            self._say(f"{_named(broker)} (pid {pid}) {how}; starting it in {back_off_s:.0f} s")
            back_off_s = await self._start_again(broker, back_off_s)

    async def _start_again(self, broker: SupervisedBroker, back_off_s: float) -> float:
        """Return when the broker is ready again, with the back-off if it dies soon."""
        while True:
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, _LONGEST_BACK_OFF_S)
            try:
                await broker.start()
            except BrokerDied as failure:
                self._say(f"{failure}; trying again in {back_off_s:.0f} s")
            else:
                self._say(f"{_named(broker)} (pid {broker.pid}) is back")
                return back_off_s

    async def _unwatch(self) -> None:
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)


def _by_hand(files: BrokerFiles) -> str:
    return f"barnabas server --config {files.properties}"


def _named(broker: SupervisedBroker) -> str:
    return f"broker {broker.files.broker_id}"


def _names(brokers: Iterable[SupervisedBroker]) -> str:
    numbers = sorted(broker.files.broker_id for broker in brokers)
    return f"{'brokers' if numbers[1:] else 'broker'} {', '.join(map(str, numbers))}"
