"""Consume-transform-produce through kills and pauses of brokers: input and output agree."""

import asyncio
import os
import random
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Final

import pytest

from barnabas.client.async_client import AsyncClient
from barnabas.client.coordinator import TRANSACTION, find_coordinator
from barnabas.client.metadata import Metadata
from barnabas.client.retries import retried, within
from tests.support.cluster import Cluster
from tests.support.confluent_client import ConfluentAdmin
from tests.support.transforming import PARTITIONS, Transformer, fill, read_committed
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


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_input_has_one_output_through_many_kills_and_pauses(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    count = 4_000
    cluster = started(fresh_cluster, count)
    chance = random.Random(7)
    with Transformer(cluster.bootstrap, "in", "out", NAME, count) as transformer:
        for kind in cycle(("kill coordinator", "kill any", "pause coordinator")):
            done = transformer.done.wait(chance.uniform(0.5, 3))
            if done or not KILLS:
                break
            number = chance.choice(list(cluster.running))
            if "coordinator" in kind:
                number = coordinator(cluster, NAME)
            broker = cluster.brokers[number]
            if kind.startswith("kill"):
                broker.kill()
                transformer.done.wait(chance.uniform(0, 4))
                cluster.start([number])
            else:
                broker.pause()
                transformer.done.wait(chance.uniform(0.5, 8))
                broker.resume()
            cluster.wait_settled()
        assert transformer.done.wait(300), transformer.failures
    assert read_committed(cluster.bootstrap, "out") == list(range(count))
