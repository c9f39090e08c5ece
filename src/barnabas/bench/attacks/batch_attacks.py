"""Attacks by batches: each is sent between two good records, then a real consumer reads them."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.bench.attacks import bad_batches
from barnabas.bench.attacks.attack import Attack, Happened, Target
from barnabas.bench.attacks.topic_reader import LAST, read_past
from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.produce import Produce, read_produce_response, write_produce_request

_NUMBERS: Final = count()
COMPACTED: Final = {"cleanup.policy": "compact"}
_VERSION: Final = 9
_ANSWERED_WITHIN_S: Final = 60.0


def send_batch(port: int, topic: str, batch: bytes) -> ErrorCode:
    """Produce one batch with acks=all. Raises PeerGone if there is no answer."""
    peer = BlockingConnection.connect(
        "127.0.0.1", port, client_id="attacker", connect_s=10.0, response_s=_ANSWERED_WITHIN_S
    )
    produce = Produce(topic, 0, batch, -1, 30_000)
    try:
        answer = peer.exchange(
            lambda number: write_produce_request(_VERSION, number, "attacker", produce)
        )
        return read_produce_response(_VERSION, answer).error
    finally:
        peer.close()


def _create_topic(bootstrap: str, config: Mapping[str, str]) -> str:
    name = f"attacked-{next(_NUMBERS)}"
    topic = NewTopic(name, num_partitions=1, replication_factor=1, config=dict(config))
    admin = AdminClient(client_settings(bootstrap))
    admin.create_topics([topic])[name].result(PATIENCE_S)
    return name


def send_between(
    make: Callable[[int], bytes], config: Mapping[str, str]
) -> Callable[[Target], Happened]:
    """The attack by one batch on a topic with this config."""

    def perform(target: Target) -> Happened:
        topic = _create_topic(target.site.bootstrap, config)
        batch = make(target.count)
        send_batch(target.port, topic, bad_batches.good(b"before"))
        try:
            answered = send_batch(target.port, topic, batch)
            told = "acknowledged" if answered is ErrorCode.none else answered.name.upper()
        except PeerGone:
            answered, told = ErrorCode.unknown_server_error, "connection closed"
        send_batch(target.port, topic, bad_batches.good(LAST))
        reading = read_past(target.site.bootstrap, topic, target.hold_s)
        facts = {
            "acknowledged": float(answered is ErrorCode.none),
            "read_past": float(reading.is_past),
            "consumer_bytes": float(reading.memory_bytes),
        }
        return Happened(told + _consumer(told, reading.is_past, reading.error), len(batch), facts)

    def _consumer(told: str, is_past: bool, error: str) -> str:
        if not is_past:
            return f"; a consumer cannot get past: {error or 'it waits for ever'}"
        return "; a consumer reads on" if told == "acknowledged" else ""

    return perform


def _of(make: Callable[[], bytes]) -> Callable[[int], bytes]:
    return lambda _: make()


def _bomb(megabytes: int) -> bytes:
    return bad_batches.zstd_bomb(megabytes)()


ATTACKS: Final = (
    Attack("batch garbage", "batch: garbage instead of records",
           send_between(_of(bad_batches.garbage), {}), 1, 1),
    Attack("batch gzip", 'batch: "gzip" that is none',
           send_between(_of(bad_batches.no_gzip), {}), 1, 1),
    Attack("batch count", "batch: one record, header says 1,000",
           send_between(_of(bad_batches.wrong_count), {}), 1, 1),
    Attack("batch key", "batch: no key on a compacted topic",
           send_between(_of(bad_batches.without_key), COMPACTED), 1, 1),
    Attack("batch bomb plain", "batch: zstd that unpacks to {count} MB, plain topic",
           send_between(_bomb, {}), 900, 200, hold_s=20.0),
    Attack("batch bomb compacted", "batch: zstd that unpacks to {count} MB, compacted topic",
           send_between(_bomb, COMPACTED), 900, 200, hold_s=20.0),
    Attack("batch deltas", "batch: offset deltas 0, 0, 0",
           send_between(_of(bad_batches.equal_deltas), {}), 1, 1),
    Attack("batch timestamp", "batch: greatest timestamp in the year 5000, the record's today",
           send_between(_of(bad_batches.far_timestamp), {}), 1, 1),
)  # fmt: skip
