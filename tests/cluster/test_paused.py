"""A controller paused beyond its session: it does no harm, and resigns when it resumes."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from tests.cluster.operations import PATIENCE, create, new_topic, next_controller, partitions
from tests.support.agreement import read_znodes, znodes
from tests.support.asking import ask
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)

MANY = 60


def test_a_controller_that_resumes_after_its_session_expired_does_no_harm(
    cluster: Cluster, topic: str
) -> None:
    """It is paused while it creates a topic, and resumes with the rest of that to do."""
    create(cluster, f"{topic}-old", 6)
    cluster.wait_settled()
    past, epoch = cluster.controller(), read_znodes(cluster.zookeeper)["epoch"]
    sleeper = cluster.brokers[past]
    with ThreadPoolExecutor() as threads, znodes(cluster.zookeeper) as client:
        asked = threads.submit(quietly_make, sleeper.port, topic)
        until(lambda: client.exists(paths.topic_path(topic)) is not None, "the topic's node")
        sleeper.pause()
        try:
            now = next_controller(cluster, past)
            until(lambda: ready(cluster, now, topic), "the new controller to have made the topic")
            before = written(client, topic)
        finally:
            sleeper.resume()
        asked.result()
        until(lambda: past in read_znodes(cluster.zookeeper)["brokers"], "the sleeper to be back")
        cluster.wait_settled()
        assert cluster.controller() == now
        tree = read_znodes(cluster.zookeeper)
        assert tree["epoch"] == epoch + 1
        # Everything since was written by the new controller: only it has the new epoch.
        for name, (version, _) in written(client, topic).items():
            if version != before[name][0]:
                assert tree["controller_epochs"][name] == epoch + 1, name
    assert len(partitions(cluster, topic)) == MANY
    refuse_the_past(cluster, past, epoch)


def quietly_make(port: int, topic: str) -> None:
    with suppress(OSError):
        ask(port, ApiKey.CREATE_TOPICS, topics=(new_topic(topic, MANY, 3),), timeout=PATIENCE)


def ready(cluster: Cluster, controller: int, topic: str) -> bool:
    state = cluster.describe_controller(controller)
    if state is None or state["queue"]["length"]:
        return False
    led = [each for name, each in state["partitions"].items() if name.startswith(topic)]
    return len(led) == MANY + 6 and all(each["leader"] >= 0 for each in led)


def written(client: Any, topic: str) -> dict[str, tuple[int, int]]:
    """The version of every partition's state, and its last transaction."""
    found = {}
    for index in range(MANY):
        stat = client.exists(f"{paths.partitions_path(topic)}/{index}/state")
        found[f"{topic}-{index}"] = (stat.version, stat.last_modified_transaction_id)
    return found


def refuse_the_past(cluster: Cluster, past: int, epoch: int) -> None:
    """Every broker refuses requests of a past controller epoch."""
    for broker in cluster.running.values():
        answers = [
            ask(
                broker.port,
                ApiKey.UPDATE_METADATA,
                controller_id=past,
                controller_epoch=epoch,
                broker_epoch=-1,
            ),
            ask(
                broker.port,
                ApiKey.LEADER_AND_ISR,
                controller_id=past,
                controller_epoch=epoch,
                broker_epoch=-1,
            ),
            ask(
                broker.port,
                ApiKey.STOP_REPLICA,
                controller_id=past,
                controller_epoch=epoch,
                broker_epoch=-1,
            ),
        ]
        codes = [answer.error_code for answer in answers]
        assert codes == [ErrorCode.stale_controller_epoch] * 3
    cluster.wait_settled()


def test_a_broker_paused_beyond_its_session_follows_when_it_resumes(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, 6)
    cluster.wait_settled()
    sleeper = next(n for n in cluster.running if n != cluster.controller())
    cluster.brokers[sleeper].pause()
    try:
        until(
            lambda: sleeper not in read_znodes(cluster.zookeeper)["brokers"], "its session to end"
        )
    finally:
        cluster.brokers[sleeper].resume()
    until(lambda: sleeper in read_znodes(cluster.zookeeper)["brokers"], "it to be back")
    cluster.wait_settled()
    assert all(each.leader_id != sleeper for each in partitions(cluster, topic).values())
