"""Replicas that move between log directories while brokers are killed and leaders change."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.batch import headers
from tests.cluster.operations import create, partitions
from tests.support.asking import ask, parts
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
RECORD: Final = b"x" * 10_000


@pytest.fixture
def cluster(fresh_cluster: Callable[..., Cluster], tmp_path: Path) -> Cluster:
    """Two brokers with two log directories each."""
    cluster = fresh_cluster(brokers=0)
    for number in range(2):
        folders = [str(tmp_path / f"{name}-{number}") for name in ("one", "two")]
        cluster.add(number, [*cluster._overrides, f"log.dirs={','.join(folders)}"])
    cluster.start()
    cluster.wait_settled()
    return cluster


def place(cluster: Cluster, broker: int, topic: str) -> tuple[Path, Path]:
    """The log directory that has the replica, and the other one."""
    one, two = cluster.brokers[broker].log_folders
    return (one, two) if (one / f"{topic}-0").exists() else (two, one)


def alter(cluster: Cluster, broker: int, topic: str, log_dir: Path) -> ErrorCode:
    wanted = parts(path=str(log_dir), topics=(parts(name=topic, partitions=(0,)),))
    answer = ask(cluster.brokers[broker].port, ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=(wanted,))
    code: ErrorCode = answer.results[0].partitions[0].error_code
    return code


def throttle(cluster: Cluster, broker: int, rate: int) -> None:
    config = parts(name=RATE, config_operation=0, value=str(rate))
    resource = parts(resource_type=4, resource_name=str(broker), configs=(config,))
    port = cluster.brokers[broker].port
    ask(port, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,))


def copied(cluster: Cluster, broker: int, topic: str) -> int:
    """The bytes of the future log."""
    asked = (parts(topic=topic, partitions=(0,)),)
    answer: Any = ask(cluster.brokers[broker].port, ApiKey.DESCRIBE_LOG_DIRS, topics=asked)
    found = [each for d in answer.results for told in d.topics for each in told.partitions]
    return sum(each.partition_size for each in found if each.is_future_key)


def is_moved(source: Path, target: Path, topic: str) -> bool:
    futures = list(target.glob("*-future"))
    return (target / f"{topic}-0").exists() and not (source / f"{topic}-0").exists() and not futures


def log_bytes(cluster: Cluster, broker: int, topic: str) -> bytes:
    directory = place(cluster, broker, topic)[0] / f"{topic}-0"
    return b"".join(file.read_bytes() for file in sorted(directory.glob("*.log")))


def same_bytes(cluster: Cluster, topic: str) -> bool:
    return log_bytes(cluster, 0, topic) == log_bytes(cluster, 1, topic)


def records(cluster: Cluster, broker: int, topic: str) -> int:
    return sum(header.record_count for _, header in headers(log_bytes(cluster, broker, topic)))


class Writer:
    """A producer with acks=all that never stops."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acknowledged = 0
        self._topic = topic
        self._done = threading.Event()
        bootstrap = ",".join(each.bootstrap for each in cluster.brokers.values())
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer(config)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._done.wait(0.01):
            self._producer.produce(self._topic, RECORD, on_delivery=self._on_delivery)
            self._producer.poll(0)

    def _on_delivery(self, error: object, _: object) -> None:
        assert error is None
        self.acknowledged += 1


def test_leaders_and_followers_move_and_a_killed_broker_goes_on(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, 1, 2, configs={"segment.bytes": "1000000"})
    cluster.wait_settled()
    leader = partitions(cluster, topic)[0].leader_id
    with Writer(cluster, topic) as writer:
        until(lambda: writer.acknowledged > 200, "records")
        for broker in (leader, 1 - leader):
            source, target = place(cluster, broker, topic)
            throttle(cluster, broker, 100_000)
            assert alter(cluster, broker, topic, target) is ErrorCode.none
            until(partial(copied, cluster, broker, topic), "a part of the copy")
            cluster.brokers[broker].kill()
            assert list(target.glob(f"{topic}-0.*-future"))
            cluster.start([broker])
            throttle(cluster, broker, 2**62)
            until(partial(is_moved, source, target, topic), "the move to end")
            cluster.wait_settled()
    until(lambda: same_bytes(cluster, topic), "the same records on both")
    for number in cluster.brokers:
        cluster.brokers[number].stop()
    cluster.start()
    cluster.wait_settled()
    assert same_bytes(cluster, topic)
    assert records(cluster, leader, topic) == writer.acknowledged
