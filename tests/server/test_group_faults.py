"""Coordinators killed, paused and cut off while groups commit: what was said stays true."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from barnabas.testing import Cluster
from tests.server.admin.client import Client
from tests.server.admin.running import until
from tests.server.group_members import (
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    commit,
    committed,
    fetch_offsets,
    found,
)

FAULTS = 4
CONFIG = {
    "offsets.topic.num.partitions": "2",
    "offsets.commit.timeout.ms": "1000",
    "min.insync.replicas": "2",
}


class Committer:
    """Commits 1, 2, 3 ... for a group of its own, and remembers what was acknowledged."""

    def __init__(self, kafka: Cluster, group: str) -> None:
        self.group = group
        self.acknowledged = 0
        self.wrong: list[object] = []
        self._kafka = kafka
        self._next = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def coordinator(self, timeout_s: float = 3) -> Client | None:
        """Whom any broker that runs names."""
        for broker in self._kafka.brokers:
            host, _, port = self._kafka.address(broker).partition(":")
            with suppress(OSError), Client(host, int(port), timeout_s) as client:
                told = found(client, self.group)
                if told.error_code == 0:
                    return Client(told.host, told.port, timeout_s)
        return None

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(OSError):
                client = self.coordinator()
                if client is not None:
                    with client:
                        self._commit_by(client)
            self._stop.wait(0.02)

    def _commit_by(self, client: Client) -> None:
        while not self._stop.is_set():
            self._next += 1
            code = commit(client, self.group, {("t", 0): self._next})["t", 0]
            if code in (NOT_COORDINATOR, NOT_AVAILABLE):
                return
            if code == 0:
                self.acknowledged = self._next
                self._read_back(client)

    def _read_back(self, client: Client) -> None:
        answer = fetch_offsets(client, self.group, [("t", (0,))])
        if answer.error_code == 0:
            (told,) = answer.topics[0].partitions
            if told.committed_offset != self.acknowledged:
                self.wrong.append((self.acknowledged, told))


def do_harm(kafka: Cluster, chance: Random) -> None:
    """One fault, and its end."""
    broker, lasts_s = chance.choice(kafka.brokers), 1.5 * chance.random()
    kind = chance.choice(["stop", "kill", "pause", "cut off", "without coordination"])
    match kind:
        case "stop":
            kafka.restart(broker)
        case "kill":
            kafka.kill_unclean(broker, at_once=chance.random() < 0.5)
            time.sleep(lasts_s)
            kafka.restart(broker)
        case "pause":
            kafka.pause(broker)
            time.sleep(lasts_s)
            kafka.resume(broker)
        case _:
            other = (broker + 1) % 3 if kind == "cut off" else "coordination"
            kafka.partition(broker, other)
            time.sleep(lasts_s)
            kafka.heal()


@pytest.mark.parametrize("seed", [2, 11])
def test_acknowledged_commits_stay_whatever_happens_to_coordinators(seed: int) -> None:
    chance = Random(seed)
    with Cluster(brokers=3, config=CONFIG) as kafka:
        kafka.create_topic("t")
        committers = [Committer(kafka, f"group-{number}") for number in range(3)]
        try:
            until(lambda: all(each.acknowledged for each in committers), "the first commits")
            for _ in range(FAULTS):
                before = [each.acknowledged for each in committers]
                do_harm(kafka, chance)
                until(partial(have_gone_on, committers, before), "commits after the fault")
        finally:
            for each in committers:
                each.stop()
        for each in committers:
            assert not each.wrong
            until(partial(is_kept, each), f"what {each.group} has committed")


def have_gone_on(committers: Sequence[Committer], since: Sequence[int]) -> bool:
    return all(each.acknowledged > last for each, last in zip(committers, since, strict=True))


def is_kept(committer: Committer) -> bool:
    client = committer.coordinator(20)
    if client is None:
        return False
    with client:
        if fetch_offsets(client, committer.group, None).error_code != 0:
            return False
        kept = committed(client, committer.group)["t", 0]
        assert kept >= committer.acknowledged
        return True
