"""Damaged requests and noise: their connection fails, and nothing and nobody else.

`BARNABAS_FUZZ=long` tries for minutes what otherwise takes seconds.
"""

import asyncio
import dataclasses
import datetime
import logging
import os
import resource
import struct
import typing
from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from barnabas.base.errors import BrokerError
from barnabas.wire.apis import ApiKey
from barnabas.wire.bounds import is_array, is_nullable, nested_entity
from barnabas.wire.schema import request_type
from tests.server.raw import (
    SOON,
    Insight,
    RawClient,
    api_versions,
    batch,
    broker,
    fetch,
    frame,
    produce,
    request,
)
from tests.wire.entities import SERVED

LONG: Final = os.environ.get("BARNABAS_FUZZ") == "long"
MOST_GROWTH_MB: Final = 300

fuzzing = settings(
    max_examples=40_000 if LONG else 400,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)

# -- the corpus: a sensible request of every API and version -----------------

TOPIC: Final = "fuzzed"
STEADY: Final = "steady"

_BY_KIND: Final[dict[str, Any]] = {
    "bool": False,
    "string": TOPIC,
    "bytes": b"",
    "records": batch(b"one", b"two"),
    "uuid": UUID(int=1),
    "error_code": ErrorCode.none,
    "timedelta_i32": datetime.timedelta(milliseconds=1),
    "timedelta_i64": datetime.timedelta(milliseconds=1),
}
# Values that a field of this name should rather hold than zero, or the topic's name.
_BY_NAME: Final[dict[str, Any]] = {
    "acks": -1,
    "count": 2,
    "timestamp": -1,
    "replica_id": -1,
    "session_epoch": -1,
    "max_bytes": 2**20,
    "partition_max_bytes": 2**20,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "resource_type": 2,
    "endpoint_type": 1,
    "config_source": 0,
    "assignments": (),
    "response_partition_limit": 100,
    "configs": None,
    "broker_epoch": -1,
    "controller_epoch": 1,
    "delete_partition": True,
    "host": "127.0.0.1",
    "host_name": "127.0.0.1",
    "port": 1,
    "member_id": "",
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "protocol_type": "consumer",
    "protocol_name": TOPIC,
    # Version 0, one topic, no user data.
    "metadata": struct.pack(">hih6si", 0, 1, 6, TOPIC.encode(), -1),
    "server_assignor": "uniform",
    "topic_partitions": (),
}
_NONE: Final = ("transactional_id", "cursor", "group_instance_id", "instance_id", "rack_id")


def sensible(entity: Any) -> Any:
    hints = typing.get_type_hints(entity)
    values = {f.name: _value(f, hints[f.name]) for f in dataclasses.fields(entity)}
    return entity(**values)


def _value(field: "dataclasses.Field[Any]", hint: object) -> Any:
    nested = nested_entity(hint)
    if field.name in _BY_NAME and _BY_NAME[field.name] is not None:
        return _BY_NAME[field.name]
    if "tag" in field.metadata and field.default is not dataclasses.MISSING:
        return field.default
    if field.name in _NONE and is_nullable(hint):
        return None
    if nested is None:
        value = _BY_KIND.get(field.metadata["kafka_type"], 0)
    else:
        value = sensible(nested)
    return (value,) if is_array(hint) else value


def many_partitions() -> Any:
    (grown,) = sensible(request_type(ApiKey.CREATE_PARTITIONS, 3)).topics
    return dataclasses.replace(grown, count=2**31 - 1, assignments=None)


# Requests of brokers are obeyed, also those of a client: these have a broker to themselves.
AMONG_BROKERS: Final = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
)


def corpus(keys: Collection[ApiKey]) -> list[bytes]:
    return [
        request(key, version, sensible(request_type(key, version)), correlation_id=version)
        for key, version in SERVED
        if key in keys
    ]


CORPUS: Final = corpus([key for key in ApiKey if key not in AMONG_BROKERS])
CORPUS_AMONG_BROKERS: Final = corpus(AMONG_BROKERS)

# -- what once did harm ------------------------------------------------------

ONCE: Final = {
    "two thousand million topics": frame(ApiKey.METADATA, 1, b"\x7f\xff\xff\xff"),
    "two thousand million topics, compact": frame(ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x07"),
    "no list where one must be": frame(ApiKey.LIST_OFFSETS, 1, b"\xff" * 8),
    "a tag of the future": frame(ApiKey.METADATA, 12, b"\x00\x01\x00\x01\x63\x02ab"),
    "two thousand million partitions": request(
        ApiKey.CREATE_PARTITIONS,
        3,
        dataclasses.replace(
            sensible(request_type(ApiKey.CREATE_PARTITIONS, 3)),
            topics=(many_partitions(),),
        ),
    ),
    "an epoch before all epochs": frame(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        3,
        struct.pack(">iih6siiii", -1, 1, 6, TOPIC.encode(), 1, 0, -1, -5),
    ),
    "a topic by id in a version that only names them": frame(
        ApiKey.METADATA, 10, b"\x02" + bytes([1]) * 16 + b"\x00\x00" + bytes(4)
    ),
}

# -- what is done to them ----------------------------------------------------

HUGE: Final = [
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff" * 10,
    b"\x00\x01\x00\x00",
    b"\x7f" + b"\xff" * 7,
]


@st.composite
def damaged(draw: st.DrawFn, corpus: Sequence[bytes] = CORPUS) -> bytes:
    """A request with some of its bytes changed, mostly in a frame that fits it."""
    sent = bytearray(draw(st.sampled_from(corpus)))
    # The header up to the client's name is damaged more rarely, or little else would be.
    first = draw(st.sampled_from([4, 14, 17, 17, 17, 17]))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(min(first, len(sent)), len(sent)))
        kind = draw(st.sampled_from(["flip", "cut", "huge", "insert", "repeat", "byte"]))
        if kind == "flip" and at < len(sent):
            sent[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "byte" and at < len(sent):
            sent[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del sent[at : at + draw(st.integers(1, 12))]
        elif kind == "huge":
            value = draw(st.sampled_from(HUGE))
            sent[at : at + draw(st.sampled_from([0, 1, len(value)]))] = value
        elif kind == "insert":
            sent[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif kind == "repeat":
            size = draw(st.integers(1, 30))
            sent[at:at] = sent[at : at + size] * draw(st.integers(1, 20))
    if draw(st.integers(0, 19)):
        sent[:4] = struct.pack(">i", len(sent) - 4)
    return bytes(sent)


# -- the broker that has to bear it ------------------------------------------


class Complaints(logging.Handler):
    """All that was logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Victim:
    """One broker for all examples, a client that must never notice, and what went wrong."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._stack = AsyncExitStack()
        self._folder = folder
        self._complaints = Complaints()
        self.insight: Insight
        self._steady: RawClient
        self._offset = 0

    def open(self) -> None:
        logging.getLogger().addHandler(self._complaints)
        self._runner.run(self._open())
        self._memory_mb = memory_mb()

    async def _open(self) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: logging.getLogger("loop").error("%s", context)
        )
        self.insight = await self._stack.enter_async_context(
            broker(
                self._folder,
                auto_create_topics_enable="false",
                controlled_shutdown_enable="false",
                # Groups take any session, if it is short, and wait for nobody.
                group_min_session_timeout_ms="1",
                group_max_session_timeout_ms="500",
                group_consumer_session_timeout_ms="500",
                group_consumer_min_session_timeout_ms="500",
                group_consumer_heartbeat_interval_ms="100",
                group_consumer_min_heartbeat_interval_ms="100",
                group_initial_rebalance_delay_ms="0",
                offsets_topic_num_partitions="2",
            )
        )
        await self.insight.create(STEADY)
        self._steady = await self.insight.connect()

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()
        logging.getLogger().removeHandler(self._complaints)

    def bear(self, sent: bytes) -> None:
        """Send it on a connection of its own, then see that all is as if it had not been."""
        self._complaints.records.clear()
        self._runner.run(asyncio.wait_for(self._bear(sent), SOON))
        self._has_no_complaints(logging.WARNING)

    def obey(self, sent: bytes) -> None:
        """Send it on a connection of its own, then see that the broker still answers others."""
        self._complaints.records.clear()
        self._runner.run(asyncio.wait_for(self._obey(sent), SOON))
        self._has_no_complaints(logging.ERROR)
        assert not self.insight.running.failed.done()

    def _has_no_complaints(self, level: int) -> None:
        complaints = [each for each in self._complaints.records if each.levelno >= level]
        assert not [logging.Formatter().format(each) for each in complaints]
        assert memory_mb() - self._memory_mb < MOST_GROWTH_MB

    def log_end(self) -> int:
        """Where the topic's log ends; it may have to be made again, as requests may delete it."""
        self._runner.run(self._have_topic())
        return self.insight.leader(TOPIC).log.log_end_offset

    async def _have_topic(self) -> None:
        while self.insight.running.broker.metadata.topic(TOPIC) is None:
            try:
                await self.insight.create(TOPIC)
            except BrokerError as e:
                if e.code is not ErrorCode.topic_already_exists:
                    raise
                # Its deletion, or its creation, was asked for and is under way.
                await asyncio.sleep(0.002)

    async def _bear(self, sent: bytes) -> None:
        await self._have_topic()
        await self._send(sent)
        await self._round_trip()

    async def _obey(self, sent: bytes) -> None:
        await self._send(sent)
        await self._steady.ask(api_versions())

    async def _send(self, sent: bytes) -> None:
        client = await self.insight.connect()
        self.insight.clients.remove(client)
        try:
            client.writer.write(sent)
            client.writer.write_eof()
            await client.reader.read()
        except ConnectionError:
            pass
        finally:
            await client.close()

    async def _round_trip(self) -> None:
        await self._steady.ask(api_versions())
        produced = await self._steady.ask(produce((STEADY, 0, batch(b"%d" % self._offset))))
        answer = produced.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, self._offset)
        fetched = await self._steady.ask(fetch((STEADY, 0, self._offset)))
        assert b"%d" % self._offset in bytes(fetched.responses[0].partitions[0].records)
        self._offset += 1


def memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    yield from living(tmp_path_factory.mktemp("victim"))


@pytest.fixture(scope="module")
def obedient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    yield from living(tmp_path_factory.mktemp("obedient"))


def living(folder: Path) -> Iterator[Victim]:
    victim = Victim(folder)
    victim.open()
    yield victim
    victim.close()


def test_the_corpus_holds_requests_that_are_served(victim: Victim) -> None:
    for sent in CORPUS:
        key = ApiKey(struct.unpack_from(">h", sent, 4)[0])
        assert len(sent) > 14, key
        victim.bear(sent)


@pytest.mark.parametrize("sent", ONCE.values(), ids=list(ONCE))
def test_what_once_did_harm_does_none(victim: Victim, sent: bytes) -> None:
    victim.bear(sent)


@fuzzing
@given(sent=st.binary(max_size=300))
def test_noise_hurts_only_its_own_connection(victim: Victim, sent: bytes) -> None:
    victim.bear(sent)


@fuzzing
@given(sent=damaged())
def test_a_damaged_request_hurts_only_its_own_connection(victim: Victim, sent: bytes) -> None:
    victim.bear(sent)


@fuzzing
@given(sent=st.lists(damaged() | st.sampled_from(CORPUS), min_size=2, max_size=4).map(b"".join))
def test_damaged_requests_among_whole_ones_hurt_only_their_own_connection(
    victim: Victim, sent: bytes
) -> None:
    victim.bear(sent)


def test_requests_among_brokers_are_obeyed_from_any_client(obedient: Victim) -> None:
    for sent in CORPUS_AMONG_BROKERS:
        obedient.obey(sent)


@fuzzing
@given(sent=damaged(CORPUS_AMONG_BROKERS))
def test_a_damaged_word_among_brokers_stops_no_broker(obedient: Victim, sent: bytes) -> None:
    obedient.obey(sent)


@settings(fuzzing, max_examples=5_000 if LONG else 50)
@given(batch=st.data())
def test_damaged_batches_are_refused_or_taken_whole(victim: Victim, batch: st.DataObject) -> None:
    whole = bytearray(_BY_KIND["records"])
    for _ in range(batch.draw(st.integers(1, 3))):
        at = batch.draw(st.integers(0, len(whole) - 1))
        whole[at] ^= 1 << batch.draw(st.integers(0, 7))
    log_end = victim.log_end()
    victim.bear(produce((TOPIC, 0, bytes(whole))))
    assert victim.log_end() - log_end in (0, 2)
