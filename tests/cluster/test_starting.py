"""Brokers that start: they listen before they register, and say nothing before they know it."""

from collections.abc import Callable
from threading import Event, Thread

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.cluster.operations import create
from tests.support.asking import ask, parts
from tests.support.cluster import Cluster

TOPICS = [f"orders-{number}" for number in range(20)]


def test_the_controller_finds_every_broker_of_a_starting_cluster_listening(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster()
    cluster.start()
    cluster.wait_settled()
    logs = "".join(broker.log() for broker in cluster.brokers.values())
    assert "controller is ready" in logs
    assert "does not respond" not in logs


class Asker:
    """A client that asks a broker for topics all the time, whether or not it answers."""

    def __init__(self, port: int) -> None:
        self.codes: dict[ErrorCode, int] = {}
        self._port = port
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> "Asker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        topics = tuple(parts(name=name, topic_id=None) for name in TOPICS)
        while not self._ended.wait(0.002):
            try:
                answer = ask(
                    self._port, ApiKey.METADATA, topics=topics, allow_auto_topic_creation=False
                )
            except OSError:
                continue
            for topic in answer.topics:
                self.codes[topic.error_code] = self.codes.get(topic.error_code, 0) + 1


def test_a_broker_that_starts_never_says_that_a_topic_does_not_exist(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster(brokers=2)
    cluster.start()
    for name in TOPICS:
        create(cluster, name, partitions=2, replicas=2)
    cluster.wait_settled()
    for stopped in ("kill", "stop"):
        former = cluster.controller()
        with Asker(cluster.brokers[former].port) as asker:
            getattr(cluster.brokers[former], stopped)()
            cluster.start([former])
            cluster.wait_settled()
        assert ErrorCode.none in asker.codes
        assert set(asker.codes) <= {ErrorCode.none, ErrorCode.leader_not_available}


def test_a_whole_cluster_that_starts_never_says_that_a_topic_does_not_exist(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster(brokers=2)
    cluster.start()
    for name in TOPICS:
        create(cluster, name, partitions=2, replicas=2)
    cluster.wait_settled()
    first, second = cluster.brokers.values()
    with Asker(first.port) as one, Asker(second.port) as other:
        first.kill()
        second.kill()
        cluster.start()
        cluster.wait_settled()
    for asker in (one, other):
        assert ErrorCode.none in asker.codes
        assert set(asker.codes) <= {ErrorCode.none, ErrorCode.leader_not_available}


def test_a_restart_logs_no_line_for_each_partition(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster(brokers=2)
    cluster.start()
    create(cluster, "orders", partitions=100, replicas=2)
    cluster.wait_settled()
    before = {number: len(broker.log()) for number, broker in cluster.brokers.items()}
    for broker in cluster.brokers.values():
        broker.kill()
        broker.start()
        cluster.wait_settled()
    for number, broker in cluster.brokers.items():
        lines = broker.log()[before[number] :].splitlines()
        assert len(lines) < 60, "\n".join(lines)
        assert not [line for line in lines if "truncat" in line]
