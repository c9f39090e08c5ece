"""Fixtures that run a command and return its exit code and output."""

import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from barnabas.cli.main import run
from tests.support.broker import BrokerProcess


class Ended(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()


Barnabas = Callable[..., Ended]
Send = Callable[..., None]


@pytest.fixture
def offline(capfdbinary: pytest.CaptureFixture[bytes]) -> Barnabas:
    """Runs a command in this process."""

    def barnabas(*arguments: object) -> Ended:
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ended(code, out, err.decode())

    return barnabas


@pytest.fixture
def barnabas(offline: Barnabas, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Barnabas:
    """Runs a command in this process, against the broker."""
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", broker.bootstrap)
    return offline


@pytest.fixture
def topic(topic: str, barnabas: Barnabas) -> str:
    """A topic of the test's own, with 2 partitions."""
    assert barnabas("topics", "create", topic, "--partitions", 2).code == 0
    return topic


@pytest.fixture
def send(barnabas: Barnabas) -> Send:
    """Produces without idempotence, which takes librdkafka half a second to start."""

    def send(*arguments: object) -> None:
        assert barnabas("produce", *arguments, "-q", "-X", "enable.idempotence=false").code == 0

    return send


def spawn(*arguments: object, broker: BrokerProcess) -> "subprocess.Popen[bytes]":
    """A command in a subprocess with unbuffered pipes."""
    command = [sys.executable, "-m", "barnabas.cli.main", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, "-b", broker.bootstrap], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe
    )
