"""Attacks before authentication: bounded memory, time and log, and others are served."""

import random
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.base.flood_log import FloodLog
from tests.server.security.conftest import SecureBroker, running
from tests.server.security.test_sasl import SOON, frame, text
from tests.server.security.test_tls import client_hello, connect, resident, until_closed

MIB = 1024 * 1024
ALONE = [pytest.mark.long, pytest.mark.alone]
PLAIN_KAFKA = frame(18, 0, b"")
Attack = Callable[[random.Random, bytes], bytes]
LINE = re.compile(r"connection (?:closed|not accepted|lost within a request) ?.*peer=127\.0\.0\.1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[SecureBroker]:
    patience = {"barnabas.authentication.timeout.ms": "3000"}
    with running(tmp_path_factory.mktemp("attacked"), certificates, patience) as started:
        yield started


def garbage(dice: random.Random, _: bytes) -> bytes:
    return dice.randbytes(dice.randint(1, 4096))


def plain_kafka(_: random.Random, __: bytes) -> bytes:
    return PLAIN_KAFKA


def hello(_: random.Random, whole: bytes) -> bytes:
    return whole


def mutated(dice: random.Random, whole: bytes) -> bytes:
    bad = bytearray(whole)
    for _ in range(dice.randint(1, 8)):
        bad[dice.randrange(len(bad))] = dice.randrange(256)
    return bytes(bad[: dice.randint(1, len(bad))])


@pytest.mark.parametrize(
    ("attack", "protocol", "count"),
    [
        (garbage, "SSL", 50),
        (plain_kafka, "SASL_SSL", 50),
        (hello, "SASL_PLAINTEXT", 50),
        (garbage, "SASL_PLAINTEXT", 50),
        (mutated, "SSL", 100),
        pytest.param(mutated, "SSL", 10_000, marks=ALONE),
        pytest.param(garbage, "SSL", 2_000, marks=ALONE),
        pytest.param(garbage, "SASL_PLAINTEXT", 2_000, marks=ALONE),
    ],
)
def test_an_attack_costs_little_and_others_are_served(
    broker: SecureBroker, attack: Attack, protocol: str, count: int
) -> None:
    dice, whole = random.Random(11), client_hello()
    connect(broker, {})
    before, began, old = resident(broker.process.pid), time.monotonic(), broker.process.log()
    for number in range(count):
        with socket.create_connection(("127.0.0.1", broker.ports[protocol]), SOON) as sock:
            with suppress(ConnectionError):
                sock.sendall(attack(dice, whole))
                sock.shutdown(socket.SHUT_WR)
            until_closed(sock)
        if number % 25 == 0:
            connect(broker, {})
    connect(broker, {})
    assert resident(broker.process.pid) - before < 32 * MIB
    lines = LINE.findall(broker.process.log().removeprefix(old))
    assert len(lines) <= 2 + time.monotonic() - began
    assert "Traceback" not in broker.process.log()


def test_a_client_cannot_renegotiate(broker: SecureBroker) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl command, which can renegotiate")
    ended = subprocess.run(
        [openssl, "s_client", "-tls1_2", "-connect", broker.at("SSL")],
        input=b"R\n" * 3,
        capture_output=True,
        timeout=SOON,
        check=False,
    )
    said = ended.stdout + ended.stderr
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said
    connect(broker, {})


def test_a_source_causes_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    floods = FloodLog()
    with caplog.at_level("INFO", "barnabas.connection"):
        for tenth in range(25):
            floods.info("10.0.0.1", tenth / 10, "closed why=%s", tenth)
        floods.info("10.0.0.2", 2.4, "closed why=%s", "other")
    assert caplog.messages == [
        "closed why=0",
        "closed why=10 (and 9 more like it)",
        "closed why=20 (and 9 more like it)",
        "closed why=other",
    ]


def test_a_frame_that_is_announced_and_not_sent_costs_little(broker: SecureBroker) -> None:
    before, waiting = resident(broker.process.pid), []
    announced = frame(17, 1, text("PLAIN")) + struct.pack(">i", 40_000)
    try:
        for _ in range(100):
            sock = socket.create_connection(("127.0.0.1", broker.ports["SASL_PLAINTEXT"]), SOON)
            sock.sendall(announced)
            waiting.append(sock)
        connect(broker, {})
        assert resident(broker.process.pid) - before < 100 * 64 * 1024
        for sock in waiting:
            until_closed(sock)
    finally:
        for sock in waiting:
            sock.close()
