"""Broker processes of a local cluster: started together, watched, stopped together.

Everything here runs in one event loop. A broker's pid file exists exactly as long as the
process that this supervisor started for it.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from barnabas.base.errors import BarnabasError
from barnabas.cli.cluster.cluster_dir import BrokerFiles
from barnabas.cli.exit_codes import CommandFailed, program
from barnabas.znodes.zookeeper.dead_session import unregister
from barnabas.znodes.zookeeper.session_file import NotProvenDead

STOPPED_WITHIN_S: Final = 60.0
_TELL_EVERY_S: Final = 5.0
_SHOWN_LINES: Final = 15
_FIRST_BACK_OFF_S: Final = 1.0
_LONGEST_BACK_OFF_S: Final = 30.0
# The back-off is reset for a broker that ran this long.
_RAN_WELL_S: Final = 60.0

Say = Callable[[str], None]


def server_command(files: BrokerFiles) -> list[str]:
    """The command that starts a broker."""
    return [sys.executable, "-m", "barnabas.cli.main", "server", "--config", str(files.properties)]


class BrokerDied(CommandFailed):
    """A broker exited before it was ready."""


class SupervisedBroker:
    """One broker and its current process, if any."""

    def __init__(self, files: BrokerFiles, command: Sequence[str]) -> None:
        self.files = files
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process and wait until it is ready, however long its recovery takes.

        Raises  BrokerDied, no process left, if it exits first
        If cancelled, the process keeps running; the caller must call `stop`.
        """
        with self.files.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # only the supervisor gets Ctrl-C, and stops all brokers
            )
        self.files.pid.write_text(f"{self._process.pid}\n")
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.startswith(b"ready"):
            how = await self.ended()
            raise BrokerDied(
                f"broker {self.files.broker_id} failed to start: it {how}; see {self.files.log}"
            )

    async def ended(self) -> str:
        """Wait for the process to exit, remove its pid file, and return how it ended."""
        assert self._process is not None
        code = await self._process.wait()
        self._process = None
        self.files.pid.unlink(missing_ok=True)
        if code >= 0:
            return f"exited with code {code}"
        return f"was killed by {signal.Signals(-code).name}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal; does nothing if there is no process."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


class Supervisor:
    """The brokers of one cluster; `say` prints one line for the operator."""

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
        """Start all brokers at once; return when all are ready.

        Raises  BrokerDied for the first that exits, after printing the end of its log. Then, and
                if cancelled, the others keep running; the caller must call `stop`
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
                    self._say(f"still waiting for {_names(starts[t] for t in waiting)} to start")
        finally:
            for task in starts:
                task.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        self._watches = [asyncio.create_task(self._watch(each)) for each in self.brokers]

    async def stop(self, within_s: float = STOPPED_WITHIN_S) -> bool:
        """Send SIGTERM to all brokers, and SIGKILL to those still running after `within_s`.

        On return no broker runs and no pid file is left. Returns False if SIGKILL was needed.
        """
        await self._unwatch()
        ends = {
            asyncio.create_task(each.ended()): each for each in self.brokers if each.pid is not None
        }
        for each in self.brokers:
            each.send(signal.SIGTERM)
            each.send(signal.SIGCONT)  # a stopped process handles no other signal
        deadline = asyncio.get_running_loop().time() + within_s
        waiting = set(ends)
        while waiting and (left_s := deadline - asyncio.get_running_loop().time()) > 0:
            _, waiting = await asyncio.wait(waiting, timeout=min(left_s, _TELL_EVERY_S))
            if waiting:
                self._say(f"still waiting for {_names(ends[t] for t in waiting)} to stop")
            for task in waiting:
                ends[task].send(signal.SIGTERM)  # a starting broker may have missed the first
        if waiting:
            self._say(f"not stopped after {within_s:.0f} s; sending SIGKILL")
            self.kill()
            await asyncio.wait(waiting)
        return not waiting

    def kill(self) -> None:
        """Send SIGKILL to all brokers."""
        for each in self.brokers:
            each.send(signal.SIGKILL)

    def _show_if_dead(self, task: "asyncio.Task[None]", broker: SupervisedBroker) -> None:
        if (failure := task.exception()) is not None:
            for line in broker.files.last_lines(_SHOWN_LINES):
                self._say(f"  {line}")
            raise failure

    async def _watch(self, broker: SupervisedBroker) -> None:
        """Report when the broker dies, and restart it if asked to."""
        loop, back_off_s = asyncio.get_running_loop(), _FIRST_BACK_OFF_S
        while True:
            started_s = loop.time()
            pid, how = broker.pid, await broker.ended()
            await self._unregister(broker)
            if not self._restart:
                again = f"restart it with: {_by_hand(broker.files)}"
                self._say(f"{_named(broker)} (pid {pid}) {how}; {again}")
                return
            if loop.time() - started_s >= _RAN_WELL_S:
                back_off_s = _FIRST_BACK_OFF_S
            self._say(f"{_named(broker)} (pid {pid}) {how}; restarting in {back_off_s:.0f} s")
            back_off_s = await self._start_again(broker, back_off_s)

    async def _unregister(self, broker: SupervisedBroker) -> None:
        """Close the session of a broker that died, so that others lead its partitions."""
        try:
            await unregister(broker.files.data)
        except NotProvenDead:
            pass  # started again already, by hand: it closes the last session itself
        except (BarnabasError, OSError) as error:
            self._say(f"{_named(broker)} stays registered until its session expires: {error}")

    async def _start_again(self, broker: SupervisedBroker, back_off_s: float) -> float:
        """Restart the broker until it is ready; return the back-off for its next death."""
        while True:
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, _LONGEST_BACK_OFF_S)
            try:
                await broker.start()
            except BrokerDied as failure:
                self._say(f"{failure}; retrying in {back_off_s:.0f} s")
            else:
                self._say(f"{_named(broker)} (pid {broker.pid}) is back")
                return back_off_s

    async def _unwatch(self) -> None:
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)


def _by_hand(files: BrokerFiles) -> str:
    return f"{program()} server --config {files.properties}"


def _named(broker: SupervisedBroker) -> str:
    return f"broker {broker.files.broker_id}"


def _names(brokers: Iterable[SupervisedBroker]) -> str:
    numbers = sorted(broker.files.broker_id for broker in brokers)
    return f"{'brokers' if numbers[1:] else 'broker'} {', '.join(map(str, numbers))}"
