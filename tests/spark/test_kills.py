"""SIGKILL to Spark's driver, executors and Python workers, and to brokers, during batches.

Whatever was killed: in the end every record was copied exactly once, to the record.
"""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.spark.side_topics import SINK_PREFIX
from tests.spark.conftest import produce
from tests.spark.copying import BATCH_RECORDS, EXECUTORS, Copying
from tests.spark.written import topics_of, values
from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster, until
from tests.support.zookeeper import zookeeper, zookeeper_chroot

__all__ = ["zookeeper", "zookeeper_chroot"]

RECORDS: Final = 2_400
BATCHES: Final = RECORDS // BATCH_RECORDS
PARTITIONS: Final = 3
ENDED_WITHIN_S: Final = 600.0
KILLS: Final = 3

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]


@pytest.fixture
def copying(tmp_path: Path) -> Iterator[Callable[..., Copying]]:
    """Fill a topic of a cluster, and give the query that copies it."""
    made: list[Copying] = []

    def make(bootstrap: str, replicas: int = 1, **more: str) -> Copying:
        client = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(name, PARTITIONS, replicas) for name in ("source", "target")]
        for created in client.create_topics(topics).values():
            created.result(ENDED_WITHIN_S)
        produce(bootstrap, "source", ({"key": str(n), "value": str(n)} for n in range(RECORDS)))
        made.append(Copying(bootstrap, "source", "target", tmp_path, **more))
        return made[-1]

    yield make
    for each in made:
        each.kill()


def amid_a_batch(query: Copying, after: int) -> None:
    """Wait until some micro-batch from that one on has begun and is not done."""
    until(
        lambda: not query.is_running or (query.begun > after and query.begun > query.done),
        f"micro-batch {after}: {query.log_tail()}",
        ENDED_WITHIN_S,
    )


def somewhat_later(chosen: random.Random) -> None:
    """So that kills fall on tasks, on decisions and on publishing alike."""
    threading.Event().wait(chosen.uniform(0, 1.5))


def check(bootstrap: str) -> None:
    copied = Counter(map(int, values(bootstrap, "target")))
    assert copied == Counter(range(RECORDS))
    assert sum(copied.elements()) == sum(range(RECORDS))


def test_drivers_killed_amid_batches_leave_every_record_once(
    fresh_broker: Callable[..., BrokerProcess], copying: Callable[[str], Copying]
) -> None:
    broker, chosen = fresh_broker(), random.Random(8)
    query = copying(broker.bootstrap)
    for kill in range(KILLS):
        query.start()
        amid_a_batch(query, kill * 2)
        somewhat_later(chosen)
        query.kill()

    query.start()
    query.end(ENDED_WITHIN_S)

    check(broker.bootstrap)


def test_python_workers_killed_amid_batches_leave_every_record_once(
    fresh_broker: Callable[..., BrokerProcess], copying: Callable[[str], Copying]
) -> None:
    broker, chosen = fresh_broker(), random.Random(9)
    query = copying(broker.bootstrap)
    query.start()
    killed = 0
    while killed < KILLS and query.is_running and query.done < BATCHES - 1:
        amid_a_batch(query, query.done)
        somewhat_later(chosen)
        for pid in query.workers()[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    # A commit runs in a worker too: killed there, the query fails, and is started again.
    until(lambda: not query.is_running, "the query to end", ENDED_WITHIN_S)
    query.kill()

    query.start()
    query.end(ENDED_WITHIN_S)

    assert killed
    check(broker.bootstrap)


def test_executors_killed_amid_batches_leave_every_record_once(
    fresh_broker: Callable[..., BrokerProcess], copying: Callable[..., Copying]
) -> None:
    """Spark starts another executor and retries the tasks; the query continues."""
    broker, chosen = fresh_broker(), random.Random(10)
    query = copying(broker.bootstrap, master=EXECUTORS)
    query.start()
    for _ in range(KILLS):
        amid_a_batch(query, query.done)
        somewhat_later(chosen)
        until(lambda: query.executors() or not query.is_running, "an executor", ENDED_WITHIN_S)
        assert query.is_running, query.log_tail()
        os.kill(chosen.choice(query.executors()), signal.SIGKILL)

    query.end(ENDED_WITHIN_S)

    check(broker.bootstrap)


def test_executors_killed_amid_a_batch_write_leave_every_record_once(
    fresh_broker: Callable[..., BrokerProcess], copying: Callable[..., Copying]
) -> None:
    broker, chosen = fresh_broker(), random.Random(11)
    query = copying(broker.bootstrap, how="batch", master=EXECUTORS)
    query.start()
    for least in (1, RECORDS // 3):
        await_written_aside(broker.bootstrap, least, query)
        os.kill(chosen.choice(query.executors()), signal.SIGKILL)

    query.end(ENDED_WITHIN_S)

    check(broker.bootstrap)


def await_written_aside(bootstrap: str, least: int, query: Copying) -> None:
    """Wait until tasks have written so many records, of which none counts yet."""

    def written() -> bool:
        assert query.is_running, query.log_tail()
        sinks = [each for each in topics_of(bootstrap) if each.startswith(SINK_PREFIX)]
        return sum(len(values(bootstrap, each)) for each in sinks) >= least

    until(written, f"{least} records to be written aside", ENDED_WITHIN_S)


def test_brokers_killed_amid_batches_leave_every_record_once(
    tmp_path: Path, zookeeper_chroot: str, copying: Callable[..., Copying]
) -> None:
    overrides = ["min.insync.replicas=2", "default.replication.factor=3"]
    with Cluster(tmp_path / "cluster", zookeeper_chroot, 3, overrides) as cluster:
        cluster.wait_settled()
        query = copying(cluster.bootstrap, replicas=3)
        query.start()
        for number in range(3):
            amid_a_batch(query, query.done)
            cluster.brokers[number].kill()
            amid_a_batch(query, query.done)
            cluster.start([number])
            cluster.wait_settled()
        query.end(ENDED_WITHIN_S)

        check(cluster.bootstrap)
