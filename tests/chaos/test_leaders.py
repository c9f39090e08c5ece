"""Leaders that are replaced, isolated, stopped or remote: what they acknowledge."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from barnabas.base.errors import ErrorCode
from barnabas.wire.records.records import Record, build_batch
from tests.chaos.cluster import CutCluster
from tests.chaos.load import Load, running
from tests.chaos.network import ZOOKEEPER, Cut
from tests.chaos.sending import Sending
from tests.support.cluster import until
from tests.support.raw import RawConnection

LEADER, FOLLOWER, OTHER = 0, 1, 2
LONGEST_HAND_OVER_S: Final = 5.0

pytestmark = pytest.mark.timeout(300)


def produce_to(cluster: CutCluster, number: int, topic: str, value: bytes) -> int:
    """Send a record to this broker with acks=all; return the error code."""
    batch = build_batch([Record(0, 1, None, value, ())])
    with RawConnection(cluster.brokers[number].bootstrap) as connection:
        return connection.produce(topic, batch)[0]


def pause(cluster: CutCluster) -> None:
    cluster.brokers[LEADER].pause()


def cut_off(cluster: CutCluster) -> None:
    cluster.network.cut([Cut(LEADER, ZOOKEEPER)])


@pytest.mark.parametrize("lose_session", [pause, cut_off])
def test_a_leader_that_lost_its_session_acknowledges_nothing(
    cluster: CutCluster, topic: str, lose_session: Callable[[CutCluster], None]
) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER, OTHER]])
    Sending(cluster.bootstrap, topic, b"before").acknowledged()
    lose_session(cluster)
    until(lambda: cluster.partitions(topic, OTHER)[0].leader_id == FOLLOWER, "another leader")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(produce_to, cluster, LEADER, topic, b"to the past")
        Sending(cluster.brokers[FOLLOWER].bootstrap, topic, b"after").acknowledged()
        assert not answer.done()
        cluster.heal()
        assert answer.result() == ErrorCode.not_leader_or_follower
    cluster.wait_in_sync(topic)
    until(lambda: len(cluster.records(LEADER, topic)) == 2, "the same log")
    assert cluster.records(LEADER, topic) == {0: b"before", 1: b"after"}


def test_a_replica_outside_the_isr_leads_only_where_the_topic_allows_it(
    cluster: CutCluster, topic: str
) -> None:
    strict, lax = f"{topic}-strict", f"{topic}-lax"
    cluster.create_topic(strict, [[LEADER, FOLLOWER]])
    cluster.create_topic(lax, [[LEADER, FOLLOWER]], {"unclean.leader.election.enable": "true"})
    cluster.brokers[FOLLOWER].kill()
    for name in (strict, lax):
        cluster.wait_isr(name, [LEADER], asked=LEADER)
        Sending(cluster.bootstrap, name, b"alone").acknowledged()
    cluster.brokers[LEADER].kill()
    cluster.brokers[FOLLOWER].start()
    until(lambda: cluster.partitions(lax, OTHER)[0].leader_id == FOLLOWER, "an unclean leader")
    until(lambda: cluster.partitions(strict, OTHER)[0].leader_id == -1, "no leader at all")
    Sending(cluster.bootstrap, lax, b"in its place").acknowledged()
    warnings = [line for line in cluster.logs().splitlines() if "unclean election" in line]
    assert [line.split("partition=")[1].split()[0] for line in warnings] == [f"{lax}-0"]
    assert all(" WARNING " in line for line in warnings)
    cluster.brokers[LEADER].start()
    for name in (strict, lax):
        cluster.wait_in_sync(name)
    assert cluster.records(LEADER, strict) == cluster.records(FOLLOWER, strict) == {0: b"alone"}
    for number in (LEADER, FOLLOWER):
        assert cluster.records(number, lax) == {0: b"in its place"}


def test_acks_all_fails_with_too_small_an_isr_before_and_after_the_append(
    cluster: CutCluster, topic: str
) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER]], {"min.insync.replicas": "2"})
    Sending(cluster.bootstrap, topic, b"both").acknowledged()
    cluster.network.cut([Cut(FOLLOWER, LEADER, only_fetches=True)])
    appended = Sending(cluster.bootstrap, topic, b"one")
    cluster.wait_isr(topic, [LEADER], asked=LEADER)
    assert appended.refused() == "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    assert Sending(cluster.bootstrap, topic, b"none").refused() == "NOT_ENOUGH_REPLICAS"
    assert Sending(cluster.bootstrap, topic, b"the leader", acks="1").acknowledged() == 2
    cluster.heal()
    cluster.wait_in_sync(topic)
    assert Sending(cluster.bootstrap, topic, b"both").acknowledged() == 3
    assert b"none" not in cluster.records(LEADER, topic).values()


def test_a_consumer_reads_from_the_follower_in_its_rack(cluster: CutCluster, topic: str) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER, OTHER]])
    for number in range(10):
        Sending(cluster.bootstrap, topic, b"%d" % number).acknowledged()
    read_from: list[int] = []

    def note(statistics: str) -> None:
        told: Any = json.loads(statistics)["topics"].get(topic, {"partitions": {}})
        read_from.extend(p["broker"] for p in told["partitions"].values() if p["broker"] >= 0)

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "client.rack": f"rack-{OTHER}",
            "statistics.interval.ms": 100,
            "stats_cb": note,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes | None] = []

    def has_read(count: int) -> bool:
        values.extend(message.value() for message in consumer.consume(10, 0.1))
        return len(values) == count and read_from[-1:] == [OTHER]

    until(lambda: has_read(10), "ten records, and the follower to be read from")
    Sending(cluster.bootstrap, topic, b"10").acknowledged()
    until(lambda: has_read(11), "the last record, from the follower")
    consumer.close()
    assert values == [b"%d" % number for number in range(11)]


def test_a_stopped_broker_hands_over_without_a_failed_request(
    cluster: CutCluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assignment = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    cluster.create_topic(topic, assignment, {"min.insync.replicas": "2"})
    load = Load(0, cluster.bootstrap, topic, len(assignment))
    gaps: list[float] = []
    with running([load]):
        until(lambda: all(load.acknowledged), "the first records")
        for broker in cluster.brokers.values():
            began = time.monotonic()
            broker.stop()
            sent = list(load.sent)
            until(partial(_is_beyond, load, sent), "all partitions to go on")
            gaps += [_longest_gap(load, p, began) for p in range(len(assignment))]
            broker.start()
            cluster.wait_in_sync(topic)
    load.flush()
    with capsys.disabled():
        print(f"\nlongest time without acknowledgement while stopping: {max(gaps):.2f} s")
    assert not load.errors
    assert max(gaps) < LONGEST_HAND_OVER_S


def _is_beyond(load: Load, sent: list[int]) -> bool:
    return all(len(done) > count for done, count in zip(load.acknowledged, sent, strict=True))


def _longest_gap(load: Load, partition: int, since: float) -> float:
    times = [since, *(each.at for each in load.acknowledged[partition] if each.at > since)]
    return max(after - before for before, after in pairwise(times))


@pytest.mark.long
def test_brokers_stop_while_zookeeper_does_not_respond(cluster: CutCluster, topic: str) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER, OTHER]])
    first = cluster.controller()
    cluster.network.cut([Cut(number, ZOOKEEPER) for number in cluster.brokers])
    for number in sorted(cluster.brokers, key=lambda number: number != first):
        cluster.brokers[number].stop()
