"""Drivers that read a topic together, one process each, and their combined progress."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from typing import IO, Any, Final, Self

from barnabas.bench.compare.client_driver import (
    SPINS_AFTER_S,
    ClientFailed,
    ClientStuck,
    Driver,
    answer,
)
from barnabas.bench.compare.kafka_release import ENDING_WITH_US

STOPS_WITHIN_S: Final = 30.0
STALLS_FOR_S: Final = 20.0  # before it is given up

# Time in seconds since the epoch, and a member's messages by then.
Progress = Sequence[tuple[float, int]]


def messages_at(series: Sequence[Progress]) -> list[tuple[float, int]]:
    """The combined progress of all members."""
    had = [0] * len(series)
    together: list[tuple[float, int]] = []
    for at, index, messages in sorted(
        (at, index, messages) for index, progress in enumerate(series) for at, messages in progress
    ):
        had[index] = messages
        together.append((at, sum(had)))
    return together


class Readers:
    """Consumers that share a topic, from `start` until the block of `running` ends."""

    def __init__(self, driver: Driver, spec: Mapping[str, object]) -> None:
        self._driver = driver
        self._spec = {**spec, "role": "consume", "shared": True}
        self._members: list[_Member] = []
        self._changed = threading.Condition()
        self._stack = ExitStack()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run the members; stops all afterwards. Raises ClientFailed if one failed."""
        with self._stack:
            yield self
            for member in self._members:
                member.stop()

    def start(self, count: int) -> None:
        for _ in range(count):
            file = TemporaryFile("w+")  # noqa: SIM115 - the stack closes it
            errors = self._stack.enter_context(file)
            member = _Member(self._driver, self._spec, self._changed, errors)
            self._members.append(member)
            self._stack.callback(member.kill)

    def wait_for(self, messages: int) -> list[tuple[float, int]]:
        """The progress until the members together had this many. Raises ClientFailed."""
        most_s = SPINS_AFTER_S if self._driver.may_spin else STALLS_FOR_S
        with self._changed:
            while sum(member.messages for member in self._members) < messages:
                had = [member.messages for member in self._members]
                if any(member.has_ended for member in self._members):
                    self._members[0].stop()
                    raise ClientFailed(f"{self._driver.name} ended early: members had {had}")
                if not self._changed.wait(most_s):
                    raise ClientStuck(f"{self._driver.name}: members had {had} of {messages}")
        return messages_at([member.progress for member in self._members])


class _Member:
    """One driver process, read by a thread."""

    def __init__(
        self,
        driver: Driver,
        spec: Mapping[str, object],
        changed: threading.Condition,
        errors: IO[str],
    ) -> None:
        self.progress: list[tuple[float, int]] = []
        self.has_ended = False
        self._driver = driver
        self._changed = changed
        self._last = ""
        self._errors = errors
        self._process = subprocess.Popen(
            [*ENDING_WITH_US, *driver.command, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def messages(self) -> int:
        return self.progress[-1][1] if self.progress else 0

    def stop(self) -> dict[str, Any]:
        """Stop it and return its result. Raises ClientFailed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(STOPS_WITHIN_S)
        self._reader.join()
        self._errors.seek(0)
        return answer(self._driver, code, self._last, self._errors.read())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                if line.startswith("["):
                    at, messages = json.loads(line)
                    self.progress.append((at, messages))
                else:
                    self._last = line
                self._changed.notify_all()
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()
