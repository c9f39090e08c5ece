"""Rows on brokers that are down: stop and start with many partitions, writes after SIGKILL."""

import time
from collections.abc import Callable
from typing import Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.bench.attacks.attack import Attack, Happened, Target
from barnabas.bench.clusters.bench_topics import create_topics
from barnabas.bench.clusters.waiting import WaitTimedOut
from barnabas.bench.compare.compare_outages import leaderless_seconds
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.wire.records.records import Record, build_batch

TOPICS: Final = 10
SERVES_WITHIN_S: Final = 180.0
_LOOKS_EVERY_S: Final = 0.02
_VERSION: Final = 9


def restarts(target: Target) -> Happened:
    """A broker with many partitions: created, stopped, started, killed and started again."""
    each = target.count // TOPICS
    topics = [f"many-{number}" for number in range(TOPICS)]
    facts = {}

    def timed(name: str, step: Callable[[], None]) -> None:
        start = time.perf_counter()
        step()
        facts[name] = time.perf_counter() - start
        target.say(f"{name} {facts[name]:.1f} s")

    def create() -> None:
        for topic in topics:
            create_topics(target.site.bootstrap, {topic: [[0]] * each})
        _until_served(target, topics, each - 1)

    def start() -> None:
        target.broker.launch()
        _until_served(target, topics, each - 1)

    timed("created", create)
    timed("stopped", target.broker.stop)
    timed("started", start)
    target.broker.kill()
    timed("started after SIGKILL", start)
    told = ", ".join(f"{name} in {seconds:.1f} s" for name, seconds in facts.items())
    return Happened(told, 0, facts)


def _until_served(target: Target, topics: list[str], partition: int) -> None:
    """Wait until the last partition of every topic acknowledges a record."""
    deadline = time.perf_counter() + SERVES_WITHIN_S
    for topic in topics:
        while not _acknowledges(target.port, topic, partition):
            if time.perf_counter() > deadline:
                raise WaitTimedOut(f"{topic} is not served within {SERVES_WITHIN_S:g} s")
            time.sleep(_LOOKS_EVERY_S)


def _acknowledges(port: int, topic: str, partition: int) -> bool:
    batch = build_batch([Record(0, time.time_ns() // 1_000_000, b"key", b"value")])
    produce = Produce(topic, partition, batch, 1, 5_000)
    try:
        peer = BlockingConnection.connect(
            "127.0.0.1", port, client_id="bench", connect_s=5.0, response_s=30.0
        )
        answer = peer.exchange(
            lambda number: write_produce_request(_VERSION, number, "bench", produce)
        )
    except PeerGone:
        return False
    found = read_produce_response(_VERSION, answer)
    peer.close()
    return found.error is ErrorCode.none


def killed(target: Target) -> Happened:
    """The leader of a partition killed, in a cluster of three."""
    seconds = leaderless_seconds(target.site)
    return Happened(f"no writes for {seconds:.2f} s", 0, {"seconds": seconds})


ATTACKS: Final = (
    Attack("partitions", "one broker with {count} partitions", restarts, 10_000, 200,
           is_probed=False),
    Attack("killed", "SIGKILL of a leader, {count} brokers", killed, 3, 3,
           brokers=3, is_probed=False),
)  # fmt: skip
