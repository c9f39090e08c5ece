"""Unavailability after SIGKILL: of a partition without leader, of a cluster without controller.

What a system's service manager does when a process has died belongs to the system, and counts.
"""

import time
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings
from barnabas.bench.clusters.waiting import WaitTimedOut
from barnabas.bench.compare.compare_sessions import wait_for_sign_of_life
from barnabas.bench.compare.compare_sites import BrokerProcess, Site

OVER_WITHIN_S: Final = 180.0
LOOKS_EVERY_S: Final = 0.01
# Topics are made in steps: one request for ten thousand partitions takes longer than it may.
AT_ONCE: Final = 1_000
PASSING: Final = (KafkaError.NOT_CONTROLLER, KafkaError.REQUEST_TIMED_OUT, KafkaError._TIMED_OUT)
RETRIED_AFTER_S: Final = 0.5
# By default the client refreshes metadata every second, which would dominate the measurement.
IMPATIENT: Final = {
    "acks": "all",
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 20,
}


def leaderless_seconds(site: Site) -> float:
    """Seconds from the kill of a partition's leader until acks=all succeeds again."""
    admin = AdminClient(client_settings(site.bootstrap))
    victim = next(each for each in site.brokers if each.broker_id != _controller(admin))
    others = [each.broker_id for each in site.brokers if each is not victim]
    _create(admin, "led", [[victim.broker_id, *others]])
    producer = Producer(client_settings(site.bootstrap, **IMPATIENT))
    _acknowledged(producer)
    wait_for_sign_of_life(admin, victim.broker_id)
    start = time.perf_counter()
    victim.crash()
    _acknowledged(producer)
    return time.perf_counter() - start


def _acknowledged(producer: Producer) -> None:
    told: list[Any] = []
    producer.produce("led", b"probe", on_delivery=lambda error, _: told.append(error))
    if producer.flush(OVER_WITHIN_S) or any(told):
        raise WaitTimedOut(f"a write is not acknowledged: {told}")


def without_controller_seconds(site: Site, partitions: int) -> float:
    """Seconds from the controller's kill until metadata shows a new one and leaders for all.

    The partitions have two replicas each and are led by all brokers in turn, so that the identity
    of the controller does not matter.
    """
    topics, controller = _led_in_turn(site, partitions)
    victim = _process(site, controller)
    left = ",".join(f"127.0.0.1:{each.port}" for each in site.brokers if each is not victim)
    watching = AdminClient(client_settings(left))
    _until_led(watching, topics, not_by=-1)
    wait_for_sign_of_life(watching, victim.broker_id)
    start = time.perf_counter()
    victim.crash()
    _until_led(watching, topics, not_by=victim.broker_id)
    return time.perf_counter() - start


def _led_in_turn(site: Site, partitions: int) -> tuple[list[str], int]:
    """Create topics with this many partitions in total, the first led by the controller; return
    both."""
    admin = AdminClient(client_settings(site.bootstrap))
    first, count = _controller(admin), len(site.brokers)
    pairs = [[(first + n) % count, (first + n + 1) % count] for n in range(partitions)]
    topics = []
    for done in range(0, partitions, AT_ONCE):
        topics.append(f"many-{done}")
        _create(admin, topics[-1], pairs[done : done + AT_ONCE])
    return topics, _controller(admin)


def _until_led(admin: AdminClient, topics: list[str], not_by: int) -> None:
    """Poll one topic after the other: polling ten thousand partitions at once would slow down
    the brokers."""
    deadline = time.perf_counter() + OVER_WITHIN_S
    for topic in topics:
        while not _is_led(admin, topic, not_by):
            if time.perf_counter() > deadline:
                raise WaitTimedOut(f"{topic} has partitions without a leader")


def _is_led(admin: AdminClient, topic: str, not_by: int) -> bool:
    asked = time.perf_counter()
    with suppress(KafkaException):  # that nobody answers in time is what an outage is about
        metadata = admin.list_topics(topic, timeout=PATIENCE_S)
        leaders = [partition.leader for partition in metadata.topics[topic].partitions.values()]
        if leaders and not {metadata.controller_id, *leaders} & {-1, not_by}:
            return True
    time.sleep(min(1.0, max(LOOKS_EVERY_S, 3 * (time.perf_counter() - asked))))
    return False


def _controller(admin: AdminClient) -> int:
    found: int = admin.list_topics(timeout=PATIENCE_S).controller_id
    return found


def _process(site: Site, broker_id: int) -> BrokerProcess:
    for each in site.brokers:
        if each.broker_id == broker_id:
            return each
    raise WaitTimedOut(f"broker {broker_id} is the controller, but was not started here")


def _create(admin: AdminClient, name: str, assignment: list[list[int]]) -> None:
    """Raises KafkaException; that the controller is about to change is waited for."""
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)
    deadline = time.perf_counter() + OVER_WITHIN_S
    while True:
        try:
            admin.create_topics([topic], operation_timeout=OVER_WITHIN_S)[name].result()
            return
        except KafkaException as problem:
            code = problem.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if code not in PASSING or time.perf_counter() > deadline:
                raise
            time.sleep(RETRIED_AFTER_S)
            admin.list_topics(timeout=PATIENCE_S)
