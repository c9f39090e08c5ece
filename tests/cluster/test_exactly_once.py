"""Consume-transform-produce through kills and pauses of brokers: input and output agree."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

import pytest

from barnabas.client.async_client import AsyncClient
from barnabas.client.coordinator import TRANSACTION, find_coordinator
from barnabas.client.metadata import Metadata
from barnabas.client.retries import retried, within
from barnabas.wire.apis import ApiKey
from tests.support.asking import ask
from tests.support.cluster import Cluster
from tests.support.confluent_client import ConfluentAdmin
from tests.support.transforming import (
    FENCED,
    PARTITIONS,
    Transformer,
    fill,
    read_committed,
)
from tests.support.waiting import until

KILLS: Final = int(os.environ.get("BARNABAS_CRASHES", "20"))
SETTINGS: Final = (
    "transaction.state.log.num.partitions=3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
    "offsets.topic.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "zookeeper.session.timeout.ms=3000",
)
NAME: Final = "clerk"
PAUSED_S: Final = 130.0
DISTURBANCES: Final = (
    "kill coordinator",
    "kill client",
    "pause coordinator",
    "pause client",
    "kill any",
)


def coordinator(cluster: Cluster, transactional_id: str) -> int:
    """The number of the broker that coordinates the id."""

    async def find() -> tuple[str, int]:
        client = AsyncClient("test", connect_s=3, request_s=3)
        brokers = [each.rpartition(":") for each in cluster.bootstrap.split(",")]
        metadata = Metadata([(host, int(port)) for host, _, port in brokers])
        try:
            return await client.run(
                retried(
                    lambda: find_coordinator(metadata, transactional_id, TRANSACTION), within(30)
                )
            )
        finally:
            client.close()

    address = ":".join(map(str, asyncio.run(find())))
    (number,) = (n for n, each in cluster.running.items() if each.bootstrap == address)
    return number


def started(make: Callable[..., Cluster], count: int) -> Cluster:
    cluster = make(*SETTINGS)
    cluster.start()
    cluster.wait_settled()
    admin = ConfluentAdmin(cluster.bootstrap)
    for topic in ("in", "out"):
        admin.create_topic(topic, PARTITIONS, replicas=3)
    fill(cluster.bootstrap, "in", count)
    return cluster


@pytest.mark.long
@pytest.mark.timeout(300)
def test_each_input_has_one_output_though_the_coordinator_is_killed(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    count = 400
    cluster = started(fresh_cluster, count)
    with Transformer(cluster.bootstrap, "in", "out", NAME, count) as transformer:
        until(lambda: transformer.transactions >= 2, "the first transactions", 60)
        victim = coordinator(cluster, NAME)
        cluster.brokers[victim].kill()
        assert transformer.done.wait(180), transformer.failures
    cluster.start([victim])
    cluster.wait_settled()
    assert read_committed(cluster.bootstrap, "out") == list(range(count))


class Clients:
    """Processes that consume, transform and produce: one at work, and those that it fenced."""

    def __init__(self, bootstrap: str, wanted: int, log: Path) -> None:
        module = "tests.support.transforming"
        self._command = [sys.executable, "-m", module, bootstrap, "in", "out", NAME, str(wanted)]
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def log(self) -> str:
        return self._log.read_text()

    def at_work(self) -> "subprocess.Popen[bytes]":
        """The newest process; another one if it has ended, as a fenced one does."""
        if not self._processes or self._processes[-1].poll() is not None:
            return self.replace()
        return self._processes[-1]

    def are_done(self) -> bool:
        """True if one has consumed all; otherwise one is at work."""
        is_done = any(process.poll() == 0 for process in self._processes)
        return is_done or self.at_work().poll() == 0

    def replace(self) -> "subprocess.Popen[bytes]":
        """Start one more, which fences the others."""
        with self._log.open("ab") as output:
            self._processes.append(subprocess.Popen(self._command, stdout=output, stderr=output))
        return self._processes[-1]

    def elapse(self, seconds: float) -> None:
        """Let the clients work for a while, or to their end."""
        with suppress(subprocess.TimeoutExpired):
            self.at_work().wait(seconds)


def disturb(cluster: Cluster, clients: Clients, kind: str, chance: random.Random) -> None:
    """One kill or pause, and its end."""
    what, whom = kind.split()
    if whom == "client":
        client = clients.at_work()
        client.send_signal(signal.SIGKILL if what == "kill" else signal.SIGSTOP)
        clients.replace()
        clients.elapse(chance.uniform(1, 15))
        client.send_signal(signal.SIGCONT)  # it finds itself fenced; a killed one is gone
        return
    number = chance.choice(list(cluster.running)) if whom == "any" else coordinator(cluster, NAME)
    broker = cluster.brokers[number]
    if what == "kill":
        broker.kill()
        clients.elapse(chance.uniform(0, 4))
        cluster.start([number])
    else:
        broker.pause()
        clients.elapse(chance.uniform(0.5, 8))
        broker.resume()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_input_has_one_output_through_many_kills_and_pauses(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    at_once = 200
    wanted = at_once * KILLS
    cluster = started(fresh_cluster, 0)
    chance = random.Random(7)
    with Clients(cluster.bootstrap, wanted, tmp_path / "clients.log") as clients:
        for done, kind in zip(range(0, wanted, at_once), cycle(DISTURBANCES), strict=False):
            fill(cluster.bootstrap, "in", at_once, done)
            clients.elapse(chance.uniform(0.5, 3))
            disturb(cluster, clients, kind, chance)
            cluster.wait_settled()
        until(clients.are_done, clients.log, 300)
    assert read_committed(cluster.bootstrap, "out") == list(range(wanted))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_input_has_one_output_though_coordinators_and_clients_are_paused_for_minutes(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Others work meanwhile; a client that was paused amid a transaction finds itself fenced."""
    at_first, at_once, fills, rounds = 2000, 200, 9, 2
    each = at_first + at_once * fills
    cluster = started(fresh_cluster, 0)
    with Clients(cluster.bootstrap, each * rounds, tmp_path / "clients.log") as clients:
        for begin in range(0, each * rounds, each):
            client = clients.at_work()
            fill(cluster.bootstrap, "in", at_first, begin)
            until(partial(is_paused_amid_a_transaction, cluster, NAME, client), clients.log, 60)
            broker = cluster.brokers[coordinator(cluster, NAME)]
            broker.pause()
            clients.replace()
            for first in range(begin + at_first, begin + each, at_once):
                clients.elapse(PAUSED_S / fills)
                fill(cluster.bootstrap, "in", at_once, first)
            broker.resume()
            client.send_signal(signal.SIGCONT)
            assert client.wait(60) == FENCED, clients.log()
            cluster.wait_settled()
        until(clients.are_done, clients.log, 300)
    assert read_committed(cluster.bootstrap, "out") == list(range(each * rounds))


def is_paused_amid_a_transaction(
    cluster: Cluster, transactional_id: str, client: "subprocess.Popen[bytes]"
) -> bool:
    """True if the client, which is paused, has an open transaction; otherwise it goes on."""
    port = cluster.brokers[coordinator(cluster, transactional_id)].port
    client.send_signal(signal.SIGSTOP)
    response = ask(port, ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=(transactional_id,))
    if response.transaction_states[0].transaction_state == "Ongoing":
        return True
    client.send_signal(signal.SIGCONT)
    return False
