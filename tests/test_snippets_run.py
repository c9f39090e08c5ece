"""Commands of the documents, run as the pages show them, page by page and in their order.

An address, a port, a directory and the broker ids of a larger cluster are replaced by those of the
test. In test_snippets.py `RUN_IN` names the tests that run the others, and `MEASURING` the commands
that no test runs as they stand.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.base.ports import free_port
from barnabas.testing import Cluster
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from tests.support.documents import BIN, document
from tests.support.snippets import commands, of
from tests.test_snippets import MEASURING, PROGRAMS_RUN, RUN_IN

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")

# Commands that print until Ctrl-C, and those that serve until they are stopped.
FOLLOWING: Final = re.compile(r" --follow$")
SERVING: Final = re.compile(r"^barnabas (server|cluster|console|registry)\b")
SECURE: Final = re.compile(r"\./secure/client\.|^barnabas (certs|tokens)\b")
SIMULATION: Final = re.compile(r"^barnabas sim\b")
SEEDS: Final = re.compile(r"1\.\.1000?\b")
UNREGISTER: Final = re.compile(r"^barnabas unregister\b")
# Exit codes other than 0, and why.
CODES: Final = {"barnabas acls explain": 1, "--without": 1}
ENDED_WITHIN_S: Final = 120


def line_by_line(*, serving: bool) -> list[str]:
    """The lines that this file runs, without those that another test runs."""
    return [
        line
        for line in commands()
        if line.startswith(tuple(f"{program} " for program in PROGRAMS_RUN))
        and not any(line.startswith(name) or f"| {name}" in line for name in (*RUN_IN, *MEASURING))
        and not any(each.search(line) for each in (SECURE, SIMULATION, UNREGISTER))
        and bool(SERVING.search(line) or line.startswith(("kill ", "curl "))) == serving
    ]


class Shell:
    """A shell in a directory of its own, with a cluster as the default of all commands."""

    def __init__(self, folder: Path, bootstrap: str = "") -> None:
        self.folder = folder
        self.bootstrap = bootstrap

    @property
    def _environment(self) -> dict[str, str]:
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        given = {**os.environ, "PATH": path, "BARNABAS_BOOTSTRAP": self.bootstrap}
        return {name: value for name, value in given.items() if value}

    def run(self, line: str, code: int = 0, said: str = "") -> str:
        ran = subprocess.run(
            ["bash", "-euc", line],
            cwd=self.folder,
            env=self._environment,
            input=said,
            capture_output=True,
            text=True,
            timeout=ENDED_WITHIN_S,
        )
        assert ran.returncode == code, f"{line}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        return ran.stdout

    @contextmanager
    def running(self, line: str, ending: signal.Signals) -> Iterator[str]:
        """Start a command and yield the first line that it prints; it must end well."""
        with (
            (self.folder / "stderr").open("w") as errors,
            subprocess.Popen(
                ["bash", "-euc", f"exec {line}"],
                cwd=self.folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            try:
                assert process.stdout is not None
                first = process.stdout.readline()
                assert first, f"{line}\n{(self.folder / 'stderr').read_text()[-2000:]}"
                yield first
                process.send_signal(ending)
                assert process.wait(ENDED_WITHIN_S) in (0, 128 + ending), line
            finally:
                process.kill()


# -- commands on a cluster -------------------------------------------------------


def prepared(cluster: Cluster, folder: Path) -> int:
    """Make what the pages take for granted; return the offset of a hanging transaction."""
    for topic in ("orders", "payments", "users", "photos", "shop-revenue"):
        cluster.create_topic(topic, partitions=2)
    (folder / "users.txt").write_text("alice:one\nbob:\n")
    (folder / "cat.jpg").write_bytes(bytes(range(256)))
    (folder / "secret").write_text("s3cret\n")
    (folder / "client.properties").write_text(f"bootstrap.servers={cluster.bootstrap_servers}\n")
    (folder / "data").symlink_to(next(cluster.folder.rglob("*1/**/meta.properties")).parent)
    (program,) = of("python", page="docs/transactions.md")
    exec(program.text.replace("127.0.0.1:9092", cluster.bootstrap_servers), {})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(100):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    return cluster.hang_transaction("payments")


def committed(cluster: Cluster) -> None:
    """A group `billing` with offsets and without members."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing"}
    consumer = Consumer(settings)
    offsets = [TopicPartition("orders", number, 0) for number in range(2)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def test_the_commands_run_on_a_cluster(tmp_path: Path) -> None:
    lines = line_by_line(serving=False)
    assert len(lines) > 50
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(3, config=config) as cluster:
        hanging = prepared(cluster, tmp_path)
        shell = Shell(tmp_path, cluster.bootstrap_servers)
        for line in lines:
            if "billing" in line:
                committed(cluster)
            here = re.sub(r" -b \S+", "", line)
            here = here.replace("7,8,9", "2,1,0").replace("/var/lib/barnabas", "data")
            here = here.replace("--start-offset 42", f"--start-offset {hanging}")
            if shutil.which("jq") is None:
                here = here.partition(" | jq ")[0]
            if FOLLOWING.search(here):
                with shell.running(here, signal.SIGINT):
                    pass
            else:
                shell.run(here, next((code for of, code in CODES.items() if of in here), 0))


# -- a secure cluster --------------------------------------------------------------


def addresses(first: str) -> str:
    assert first.startswith("ready "), first
    return first.split()[-1]


@needs_java
def test_the_commands_of_the_page_on_security_run(tmp_path: Path) -> None:
    start, *lines = [line for line in commands() if "./secure" in line]
    assert len(lines) > 4
    shell = Shell(tmp_path)
    with shell.running(f"{start} --base-port 0", signal.SIGTERM) as first:
        shell.bootstrap = addresses(first)
        for line in lines:
            if line.startswith("kcat") and shutil.which("kcat") is None:
                continue
            shell.run(re.sub(r" -b \S+", "", line), said="secret\n")
        (alice,) = (each.text for each in of("text") if 'username="alice"' in each.text)
        of_alice = alice.replace("127.0.0.1:9092", shell.bootstrap)
        (tmp_path / "alice.properties").write_text(of_alice)
        (consume,) = re.findall(
            r"`(barnabas consume .* alice.properties)`", document("docs/security.md")
        )
        shell.run(consume)
        (page,) = (each.text for each in of("text") if "barnabas tokens" in each.text)
        hmac = "HMAC"
        for line in page.splitlines():
            printed = shell.run(
                f"{line.replace('HMAC', hmac)} --command-config ./secure/client.properties --json"
            )
            if found := re.search(r'"hmac": "([^"]+)"', printed):
                hmac = found[1]
        assert hmac != "HMAC"


def test_a_broker_starts_with_the_certificates_and_properties_of_the_page_on_security(
    tmp_path: Path,
) -> None:
    for line in commands():
        if line.startswith("barnabas certs"):
            Shell(tmp_path).run(line)
    tls, sasl = (each.text for each in of("properties", page="docs/security.md"))
    shell = Shell(tmp_path)
    for number, text in enumerate((tls, tls + sasl)):
        local = re.sub(r"^(listeners=\w+://):\d+$", r"\g<1>127.0.0.1:0", text, flags=re.M)
        (tmp_path / "server.properties").write_text(f"log.dirs=data-{number}\n{local}")
        with shell.running("barnabas server --config server.properties", signal.SIGTERM) as first:
            assert first.startswith("ready "), first


# -- what serves ---------------------------------------------------------------------


def test_brokers_consoles_and_registries_start_as_the_pages_show(tmp_path: Path) -> None:
    """`curl` asks the server that the line before it starts."""
    metrics = f"127.0.0.1:{free_port()}"
    (tmp_path / "broker-7.properties").write_text("broker.id=7\nlog.dirs=data-7\n")
    (tmp_path / "secret").write_text("s3cret\n")
    with Cluster(1) as cluster:
        bootstrap = cluster.bootstrap_servers
        (tmp_path / "client.properties").write_text(f"bootstrap.servers={bootstrap}\n")
        shell = Shell(tmp_path, bootstrap)
        for line in line_by_line(serving=True):
            if line.startswith(("barnabas cluster", "kill ", "curl ")):
                continue
            here = re.sub(r" -b \S+", "", line).replace("127.0.0.1:9192", metrics)
            here = re.sub(r" --listen \S+", "", here) + " --listen 127.0.0.1:0"
            with shell.running(here, signal.SIGTERM) as first:
                assert first.startswith("ready "), here
                if "--metrics" in here:
                    (curl,) = (each for each in commands() if each.startswith("curl "))
                    assert "barnabas_" in shell.run(curl.replace("127.0.0.1:9192", metrics))


@needs_java
@pytest.mark.parametrize(
    "line", [line for line in line_by_line(serving=True) if line.startswith("barnabas cluster")]
)
def test_clusters_start_as_the_pages_show(
    line: str, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """`kill` ends a broker of the plain cluster; what is left can be unregistered."""
    shell = Shell(tmp_path)
    here = line.replace("/var/tmp/five", "five").replace("zk1:2181", zookeeper.address)
    if "--base-port" not in here:
        here += " --base-port 0"
    with shell.running(here, signal.SIGTERM) as first:
        assert first.startswith("ready ")
        if line == "barnabas cluster":
            (kill,) = (each for each in commands() if each.startswith("kill "))
            shell.run(kill)
    (one,) = tmp_path.glob("*/broker-0")
    for each in (each for each in commands() if UNREGISTER.search(each)):
        local = each.replace(" server.properties", f" {one}/server.properties")
        shell.run(local.replace("/var/lib/barnabas", f"{one}/data"))


# -- the simulation ----------------------------------------------------------------


@pytest.mark.parametrize("line", [line for line in commands() if SIMULATION.search(line)])
def test_simulations_run_as_the_pages_show(line: str, tmp_path: Path) -> None:
    """Two seeds instead of hundreds; a safeguard that is switched off is missed."""
    code = 1 if "--without" in line else 0
    Shell(tmp_path).run(SEEDS.sub("1..2", line), code)
