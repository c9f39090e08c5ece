"""Killed brokers that are unregistered: the others lead at once, not after the session timeout."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from barnabas.znodes.zookeeper.dead_session import Unregistered, unregister
from barnabas.znodes.zookeeper.session_file import SESSION_FILE, NotProvenDead, SessionFile
from tests.cluster.conftest import BROKERS
from tests.cluster.operations import create, partitions
from tests.support.agreement import registered
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import ConfluentClient

pytestmark = pytest.mark.timeout(300)

# So long that nothing in these tests happens because a session expired.
NEVER: Final = "zookeeper.session.timeout.ms=110000"
CONNECTED: Final = "zookeeper.connection.timeout.ms=30000"
SOON_S: Final = 10.0

Make = Callable[..., Cluster]


@pytest.fixture
def cluster(fresh_cluster: Make) -> Cluster:
    cluster = fresh_cluster(NEVER, CONNECTED)
    cluster.start()
    return cluster


def kill(broker: BrokerProcess) -> None:
    """Kill a broker and unregister it, as its supervisor does."""
    broker.kill()
    assert asyncio.run(unregister(broker.data)) is Unregistered.CLOSED


def is_registered(cluster: Cluster, number: int) -> bool:
    return number in registered(cluster.zookeeper)


@pytest.mark.parametrize("victim", ["controller", "leader", "follower"])
def test_others_take_over_from_a_killed_broker_at_once(
    cluster: Cluster, topic: str, victim: str
) -> None:
    create(cluster, topic, 6)
    cluster.wait_settled()
    controller = cluster.controller()
    leader = next(
        each.leader_id
        for each in partitions(cluster, topic).values()
        if each.leader_id != controller
    )
    (follower,) = set(BROKERS) - {controller, leader}
    killed = {"controller": controller, "leader": leader, "follower": follower}[victim]
    kill(cluster.brokers[killed])
    until(
        lambda: all(
            each.leader_id in cluster.running and killed not in each.isr_nodes
            for each in partitions(cluster, topic).values()
        ),
        "new leaders",
        SOON_S,
    )
    assert cluster.controller() != killed
    cluster.start([killed])
    cluster.wait_settled()


def test_all_brokers_are_killed_and_return_without_waiting_for_a_timeout(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, 6)
    cluster.wait_settled()
    sent = [Message(b"%d" % number) for number in range(20)]
    ConfluentClient(cluster.bootstrap).produce(topic, sent)
    for number in BROKERS:
        cluster.brokers[number].kill()
    started = time.monotonic()
    cluster.start()
    cluster.wait_settled()
    assert time.monotonic() - started < 60
    found = ConfluentClient(cluster.bootstrap).consume(topic, 20)
    assert [each.message.value for each in found] == [each.value for each in sent]


def test_a_paused_broker_keeps_its_session(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    broker.pause()
    with pytest.raises(NotProvenDead, match="holds its lock"):
        asyncio.run(unregister(broker.data))
    assert is_registered(cluster, 0)
    broker.resume()
    cluster.wait_settled()


def test_a_copy_of_a_living_brokers_directory_does_not_end_its_session(
    cluster: Cluster, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(cluster.brokers[0].data, copy)
    with pytest.raises(NotProvenDead, match="a copy"):
        asyncio.run(unregister(copy))
    assert is_registered(cluster, 0)
    cluster.wait_settled()


def test_a_second_broker_on_the_directory_leaves_the_first_ones_session_alone(
    cluster: Cluster,
) -> None:
    broker = cluster.brokers[0]
    kept = (broker.data / SESSION_FILE).read_bytes()
    second = BrokerProcess(broker.folder, broker.overrides, node_id=0, zookeeper=cluster.zookeeper)
    code, output = second.fail_to_start()
    assert code == 1
    assert "is in use by another broker" in output
    assert (broker.data / SESSION_FILE).read_bytes() == kept
    assert is_registered(cluster, 0)


def test_a_broker_with_a_corrupt_session_file_starts_and_repairs_it(
    fresh_cluster: Make,
) -> None:
    cluster = fresh_cluster(brokers=1)
    cluster.start()
    broker = cluster.brokers[0]
    broker.kill()
    (broker.data / SESSION_FILE).write_bytes(b"{")
    broker.start()
    assert SessionFile(broker.data).read() is not None
    assert "unknown contents" in broker.log()
    broker.stop()


def test_a_broker_that_stops_keeps_no_session_and_never_logs_its_password(
    cluster: Cluster, tmp_path: Path
) -> None:
    broker = cluster.brokers[0]
    kept = SessionFile(broker.data).read()
    assert kept is not None
    broker.stop()
    assert not (broker.data / SESSION_FILE).exists()
    assert asyncio.run(unregister(broker.data)) is Unregistered.NOTHING_TO_CLOSE
    assert kept.password.hex() not in broker.log()
    assert repr(kept.password) not in broker.log()


def run_command(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "barnabas.cli.main", "unregister", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_unregisters_a_dead_broker_and_refuses_a_living_one(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    refused = run_command("--data", broker.data)
    assert refused.returncode == 1
    assert refused.stderr.endswith("not closed: a running process holds its lock\n")
    kept = SessionFile(broker.data).read()
    assert kept is not None
    broker.kill()
    config = broker.folder / "server.properties"
    config.write_text(f"log.dirs={broker.data},{broker.folder}/another\n")
    for said in ("session closed", "no session is kept"):
        done = run_command("--config", config)
        assert done.returncode == 0, done.stderr
        assert said in done.stderr
        assert kept.password.hex() not in done.stdout + done.stderr
        assert not is_registered(cluster, 0)


def is_gone(zookeeper: str, number: int) -> bool:
    return number not in registered(zookeeper)


def test_a_killed_broker_of_a_local_cluster_is_unregistered_by_its_supervisor(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "cluster", "--base-port", "0"]
    errors = tmp_path / "stderr"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--data", str(tmp_path / "data"), "-o", NEVER, "-o", CONNECTED],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    with process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        try:
            assert ready.startswith("ready"), errors.read_text()
            zookeeper = ready.partition("zookeeper=")[2].split()[0]
            for number in BROKERS[:2]:
                pid = int((tmp_path / "data" / f"broker-{number}.pid").read_text())
                os.kill(pid, signal.SIGKILL)
                until(partial(is_gone, zookeeper, number), "the supervisor", SOON_S)
            assert 2 in registered(zookeeper)
        finally:
            process.terminate()
            process.wait(60)


BREAKS_A_LAW: Final = """
import signal
from barnabas.base.errors import LawBroken
from barnabas.base.failures import FailureChannel
begin = FailureChannel.__init__
def init(self, loop):
    begin(self, loop)
    loop.add_signal_handler(signal.SIGUSR1, lambda: self.fatal(LawBroken("broken by the test")))
FailureChannel.__init__ = init
"""


def test_a_broker_that_broke_a_law_ends_its_session_itself(
    fresh_cluster: Make, tmp_path: Path, topic: str
) -> None:
    cluster = fresh_cluster(NEVER, CONNECTED, brokers=2)
    folder = tmp_path / "broken"
    folder.mkdir()
    cluster.brokers[2] = BrokerProcess(
        folder,
        cluster.brokers[0].overrides,
        node_id=2,
        zookeeper=cluster.zookeeper,
        prelude=BREAKS_A_LAW,
    )
    cluster.start()
    create(cluster, topic, 6)
    cluster.wait_settled()
    broken = cluster.brokers[2]
    os.kill(broken.pid, signal.SIGUSR1)
    until(lambda: not is_registered(cluster, 2), "the end of its session", SOON_S)
    until(lambda: not broken.is_running, "its end", SOON_S)
    assert "stopped after failure: broken by the test" in broken.log()
    assert "Traceback" not in broken.log()
    assert not (broken.data / SESSION_FILE).exists()
    broken.reap()
    cluster.wait_settled()
