"""Checks of a cluster's metadata: controller, listeners, leaders, replicas."""

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from barnabas.cli.doctor.finding import Finding, first_of, problem, warning
from barnabas.cli.show import counted

CONNECT_TIMEOUT_S: Final = 3.0
# Kafka's leader.imbalance.per.broker.percentage.
MAX_IMBALANCE_PERCENT: Final = 10


class Part(NamedTuple):
    """One partition of the metadata."""

    topic: str
    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def is_whole(self) -> bool:
        return set(self.in_sync) == set(self.replicas)


def parts_of(topics: Mapping[str, Any]) -> list[Part]:
    """All partitions, from librdkafka's metadata."""
    return [
        Part(topic, number, part.leader, tuple(part.replicas), tuple(part.isrs))
        for topic, described in sorted(topics.items())
        for number, part in sorted(described.partitions.items())
    ]


def check_controller(controller_id: int, brokers: Iterable[int]) -> Iterator[Finding]:
    if controller_id not in brokers:
        yield problem(
            "controller",
            "the cluster has no controller: nobody elects leaders or creates topics",
            "look into the brokers' logs for lost sessions, and see that a majority of ZooKeeper"
            " (or of the controller quorum) is up",
        )


def check_listeners(brokers: Mapping[int, tuple[str, int]]) -> dict[int, Finding]:
    """Connect to every address that brokers advertise, as clients do; those not reached."""
    found = {}
    for broker, (host, port) in sorted(brokers.items()):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except OSError as error:
            found[broker] = problem(
                "listeners",
                f"broker {broker} advertises {host}:{port}, which this machine does not reach"
                f" ({error.strerror or error})",
                "if the broker runs, set its advertised.listeners to a name and port that clients"
                " reach; otherwise start it",
            )
    return found


def check_down(parts: list[Part], brokers: Iterable[int]) -> Iterator[Finding]:
    """Brokers that hold replicas and are not in the metadata."""
    alive = frozenset(brokers)
    held = Counter(each for part in parts for each in part.replicas if each not in alive)
    for broker, count in sorted(held.items()):
        yield problem(
            "down",
            f"broker {broker} is down: it is not in the cluster, and"
            f" {counted(count, 'partition')} {'has' if count == 1 else 'have'} a replica on it",
            f"start broker {broker}; if it is gone for good, move its replicas with"
            " `barnabas reassign`",
        )


def check_leaders(parts: list[Part], brokers: Iterable[int]) -> Iterator[Finding]:
    alive = frozenset(brokers)
    offline = [part for part in parts if part.leader not in alive]
    if offline:
        down = sorted({each for part in offline for each in part.replicas} - alive)
        start = f"start brokers {first_of([str(each) for each in down])}" if down else "see the log"
        yield problem(
            "offline",
            f"{counted(len(offline), 'partition')} without a leader:"
            f" {first_of([part.name for part in offline])}",
            f"{start}; if their disks are lost, `barnabas elect --unclean --topic"
            f" {offline[0].topic}` takes what others have and loses the rest",
        )


def check_replicas(parts: list[Part], brokers: Iterable[int]) -> Iterator[Finding]:
    alive = frozenset(brokers)
    lagging = [part for part in parts if part.leader in alive and not part.is_whole]
    if lagging:
        missing = Counter(
            each for part in lagging for each in part.replicas if each not in part.in_sync
        )
        down = sorted(each for each in missing if each not in alive)
        slow = sorted(each for each in missing if each in alive)
        todo = [f"start broker {each}" for each in down]
        todo += [f"look into the log and disks of broker {each}, which lags" for each in slow]
        yield problem(
            "under-replicated",
            f"{counted(len(lagging), 'partition')} with replicas out of sync:"
            f" {first_of([part.name for part in lagging])}",
            "; ".join(todo),
        )


def check_balance(parts: list[Part], brokers: Iterable[int]) -> Iterator[Finding]:
    """Brokers that lead too few of the partitions whose preferred replica they are."""
    alive = frozenset(brokers)
    preferred: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for part in parts:
        if part.replicas and part.replicas[0] in alive and part.leader in alive:
            preferred[part.replicas[0]] += 1
            elsewhere[part.replicas[0]] += part.leader != part.replicas[0]
    for broker, count in sorted(elsewhere.items()):
        if count * 100 > preferred[broker] * MAX_IMBALANCE_PERCENT:
            yield warning(
                "balance",
                f"broker {broker} is the preferred leader of"
                f" {counted(preferred[broker], 'partition')}; others lead {count} of them",
                "run `barnabas elect --all` once its replicas are in sync, or wait for"
                " auto.leader.rebalance.enable",
            )


def check_min_isr(parts: list[Part], least: Mapping[str, int]) -> Iterator[Finding]:
    """Partitions that refuse acks=all; `least` is min.insync.replicas by topic."""
    refusing = [part.name for part in parts if len(part.in_sync) < least.get(part.topic, 0)]
    if refusing:
        yield problem(
            "min-isr",
            f"{counted(len(refusing), 'partition')} with fewer replicas in sync than"
            f" min.insync.replicas, so acks=all is refused: {first_of(refusing)}",
            "start the brokers that are down; lower min.insync.replicas only if you accept to lose"
            " records with the next broker",
        )
