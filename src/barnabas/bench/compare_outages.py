"""How long nobody serves after a SIGKILL: no leader of a partition, no controller of a cluster."""

import time
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.bench.compare_sites import BrokerProcess, Site
from barnabas.bench.topics import PATIENCE_S, client_settings
from barnabas.bench.waiting import NotInTime

OVER_WITHIN_S: Final = 180.0
LOOKS_EVERY_S: Final = 0.01
# Topics are made in steps: one request for ten thousand partitions takes longer than it may.
AT_ONCE: Final = 1_000


def leaderless_seconds(site: Site) -> float:
    """From the death of a partition's leader until a write with acks=all is acknowledged again."""
    admin = AdminClient(client_settings(site.bootstrap))
    victim = next(each for each in site.brokers if each.broker_id != _controller(admin))
    others = [each.broker_id for each in site.brokers if each is not victim]
    _create(admin, "led", [[victim.broker_id, *others]])
    settings = {"acks": "all", "linger.ms": 0, "retry.backoff.ms": 20, "retry.backoff.max.ms": 50}
    producer = Producer(
        client_settings(site.bootstrap, **settings, **{"reconnect.backoff.max.ms": 100})
    )
    _acknowledged(producer)
    start = time.perf_counter()
    victim.kill()
    _acknowledged(producer)
    return time.perf_counter() - start


def _acknowledged(producer: Producer) -> None:
    told: list[Any] = []
    producer.produce("led", b"probe", on_delivery=lambda error, _: told.append(error))
    if producer.flush(OVER_WITHIN_S) or any(told):
        raise NotInTime(f"a write is not acknowledged: {told}")


def without_controller_seconds(site: Site, partitions: int) -> float:
    """From the controller's death until all it led is led by others, as these tell clients."""
    admin = AdminClient(client_settings(site.bootstrap))
    victim = _process(site, _controller(admin))
    others = [each.broker_id for each in site.brokers if each is not victim]
    for first in range(0, partitions, AT_ONCE):
        number = min(AT_ONCE, partitions - first)
        _create(admin, f"many-{first}", [[victim.broker_id, others[0]]] * number)
    left = ",".join(f"127.0.0.1:{each.port}" for each in site.brokers if each is not victim)
    watching = AdminClient(client_settings(left))
    _until_led(watching, partitions, not_by=-1)
    start = time.perf_counter()
    victim.kill()
    _until_led(watching, partitions, not_by=victim.broker_id)
    return time.perf_counter() - start


def _until_led(admin: AdminClient, partitions: int, not_by: int) -> None:
    deadline = time.perf_counter() + OVER_WITHIN_S
    while True:
        metadata = admin.list_topics(timeout=PATIENCE_S)
        leaders = [
            partition.leader
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
        ]
        led = sum(leader not in (-1, not_by) for leader in leaders)
        if led >= partitions and metadata.controller_id not in (-1, not_by):
            return
        if time.perf_counter() > deadline:
            raise NotInTime(f"{led} of {partitions} partitions have a leader")
        time.sleep(LOOKS_EVERY_S)


def _controller(admin: AdminClient) -> int:
    found: int = admin.list_topics(timeout=PATIENCE_S).controller_id
    return found


def _process(site: Site, broker_id: int) -> BrokerProcess:
    return next(each for each in site.brokers if each.broker_id == broker_id)


def _create(admin: AdminClient, name: str, assignment: list[list[int]]) -> None:
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)
    created = admin.create_topics([topic], operation_timeout=OVER_WITHIN_S)
    created[name].result(OVER_WITHIN_S)
