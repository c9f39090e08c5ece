"""Markers go to the leader of now, in one queue per broker, until each partition has its own."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.config.broker_config import BrokerConfig
from barnabas.coordinator.result import TransactionEnd
from barnabas.server.cluster.metadata_cache import (
    BrokerImage,
    MetadataCache,
    PartitionImage,
    TopicImage,
)
from barnabas.server.transactions.marker_channels import Marker, MarkerChannels
from barnabas.server.transactions.marker_targets import (
    MarkerOutcome,
    decide_targets,
    outcome_of,
)
from barnabas.server.transactions.marker_writer import Results
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.records import ControlType, EndTransactionMarker
from barnabas.wire.schema import read_as_sent, write_response

A, B, GONE = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("gone", 0)
MARKER = Marker(5, 1, True, 3)


def cluster(ports: dict[int, int], leaders: dict[TopicPartition, int]) -> MetadataCache:
    metadata = MetadataCache("cluster", is_complete=True)
    for broker, port in ports.items():
        endpoints = {"PLAINTEXT": ("127.0.0.1", port)}
        metadata.brokers[BrokerId(broker)] = BrokerImage(BrokerId(broker), endpoints)
    for at, leader in leaders.items():
        image = PartitionImage(BrokerId(leader), LeaderEpoch(0), (), ())
        metadata._by_name[at.topic] = TopicImage(at.topic, None, {at.partition: image})
    return metadata


# -- targets -----------------------------------------------------------------


def test_markers_go_to_the_live_leader_of_each_partition() -> None:
    """T25, T28"""
    metadata = cluster({0: 1, 1: 1}, {A: 0, B: 1})
    targets = decide_targets(metadata, {A, B})
    assert targets.led == {0: {A}, 1: {B}}
    assert not targets.leaderless
    assert not targets.deleted


def test_a_partition_whose_leader_is_unknown_or_down_waits() -> None:
    """T25"""
    metadata = cluster({0: 1}, {A: -1, B: 4})
    assert decide_targets(metadata, {A, B}).leaderless == {A, B}


def test_a_partition_of_a_deleted_topic_is_dropped() -> None:
    """T25"""
    metadata = cluster({0: 1}, {A: 0})
    assert decide_targets(metadata, {A, GONE}).deleted == {GONE}


def test_a_broker_that_does_not_know_its_cluster_yet_drops_nothing() -> None:
    metadata = cluster({0: 1}, {})
    metadata.is_complete = False
    assert decide_targets(metadata, {GONE}).leaderless == {GONE}


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.none, MarkerOutcome.WRITTEN),
        (ErrorCode.unsupported_for_message_format, MarkerOutcome.WRITTEN),
        (ErrorCode.not_leader_or_follower, MarkerOutcome.RETRY),
        (ErrorCode.unknown_topic_or_partition, MarkerOutcome.RETRY),
        (ErrorCode.kafka_storage_error, MarkerOutcome.RETRY),
        (ErrorCode.not_enough_replicas, MarkerOutcome.RETRY),
        (ErrorCode.not_enough_replicas_after_append, MarkerOutcome.RETRY),
        (ErrorCode.request_timed_out, MarkerOutcome.RETRY),
        (ErrorCode.network_exception, MarkerOutcome.RETRY),
        (ErrorCode.invalid_producer_epoch, MarkerOutcome.STOP),
        (ErrorCode.transaction_coordinator_fenced, MarkerOutcome.STOP),
    ],
)
def test_the_answer_decides_whether_a_marker_is_sent_again(
    code: ErrorCode, outcome: MarkerOutcome
) -> None:
    """T25"""
    assert outcome_of(code) is outcome


# -- channels ----------------------------------------------------------------


class Leader:
    """A leader on a real socket that answers as it is told, in the bytes of Kafka."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.asked = asyncio.Event()
        self.held = asyncio.Event()
        self.held.set()
        self.hangs_up = False

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
            except asyncio.IncompleteReadError:
                writer.close()
                return
            key, version, number, length = struct.unpack_from(">hhih", frame)
            if key == ApiKey.API_VERSIONS:
                body = struct.pack(">ihihhh", number, 0, 1, ApiKey.WRITE_TXN_MARKERS, 0, 1)
                writer.write(len(body).to_bytes(4, "big") + body)
                continue
            request = read_as_sent(ApiKey(key), version, memoryview(frame)[11 + length :])
            self.requests.append(request)
            self.asked.set()
            await self.held.wait()
            if self.hangs_up:
                writer.close()
                return
            response = self._answer(request)
            writer.write(write_response(ApiKey(key), version, number, response))

    def _answer(self, request: Any) -> Any:
        from types import SimpleNamespace as Parts

        return Parts(
            markers=tuple(
                Parts(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        Parts(
                            name=topic.name,
                            partitions=tuple(
                                Parts(
                                    partition_index=index,
                                    error_code=self.codes.get(
                                        TopicPartition(topic.name, index), ErrorCode.none
                                    ),
                                )
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )


class DirectPeers:
    """Connections without security."""

    async def connect(self, host: str, port: int, client_id: str, timeout_s: float) -> Any:
        from barnabas.client.connection import AsyncConnection

        return await AsyncConnection.connect(host, port, client_id=client_id, timeout_s=timeout_s)


class OwnPartitions:
    """The partitions that this broker leads."""

    async def write(self, end: TransactionEnd, partitions: list[TopicPartition]) -> Results:
        assert end == TransactionEnd(5, 1, EndTransactionMarker(ControlType.COMMIT, 3))
        return dict.fromkeys(partitions, ErrorCode.none)


class Sole(OwnPartitions):
    """Partition A has one replica; what this broker writes to B waits for others."""

    def write_at_once(self, at: TopicPartition, end: TransactionEnd) -> ErrorCode | None:
        return ErrorCode.none if at == A else None


@pytest.mark.parametrize(
    ("own_id", "delay_s", "written"),
    [(0, 0.0, {A}), (1, 0.0, set()), (0, 1.0, set())],
    ids=["led here", "led elsewhere", "delayed by a test"],
)
def test_markers_that_wait_for_nothing_are_written_at_once(
    own_id: int, delay_s: float, written: set[TopicPartition]
) -> None:
    config = BrokerConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0"})
    others: Any = None
    own: Any = Sole()
    delays: Any = SimpleNamespace(marker_delay_s=lambda: delay_s)
    metadata = cluster({0: 9092}, {A: 0, B: 0})
    channels = MarkerChannels(BrokerId(own_id), config, metadata, others, others, own, delays)
    assert channels.write_at_once(MARKER, {A, B}) == dict.fromkeys(written, ErrorCode.none)


def with_leader(test: Callable[[Leader, MarkerChannels], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def body() -> None:
            leader = Leader()
            metadata = cluster({0: await leader.open()}, {A: 0, B: 0})
            config = BrokerConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0"})
            failures = FailureChannel(asyncio.get_running_loop())
            peers: Any = DirectPeers()
            own: Any = OwnPartitions()
            channels = MarkerChannels(BrokerId(1), config, metadata, peers, failures, own)
            try:
                await test(leader, channels)
            finally:
                await channels.close()
                leader.close()

        asyncio.run(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@with_leader
async def test_markers_that_wait_for_a_broker_share_a_request(
    leader: Leader, channels: MarkerChannels
) -> None:
    """T25"""
    leader.held.clear()
    first = channels.write(BrokerId(0), MARKER, frozenset({A}))
    await leader.asked.wait()
    others = [
        channels.write(BrokerId(0), MARKER._replace(producer_id=n), frozenset({A, B}))
        for n in (6, 7)
    ]
    twin = channels.write(BrokerId(0), MARKER._replace(producer_id=7), frozenset({B}))
    assert channels.queued == 5
    leader.held.set()
    assert await first == {A: ErrorCode.none}
    assert [await each for each in others] == [dict.fromkeys((A, B), ErrorCode.none)] * 2
    assert await twin == {B: ErrorCode.none}
    sent = [[marker.producer_id for marker in each.markers] for each in leader.requests]
    assert sent == [[5], [6, 7], [7]], "one marker for each producer in a request"
    (marker,) = leader.requests[0].markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (
        1,
        True,
        3,
    )


@with_leader
async def test_each_partition_gets_its_own_error(leader: Leader, channels: MarkerChannels) -> None:
    """T25"""
    leader.codes = {A: ErrorCode.not_leader_or_follower}
    results = await channels.write(BrokerId(0), MARKER, frozenset({A, B}))
    assert results == {A: ErrorCode.not_leader_or_follower, B: ErrorCode.none}


@with_leader
async def test_a_broker_that_does_not_answer_is_asked_again_later(
    leader: Leader, channels: MarkerChannels
) -> None:
    """T25, T27"""
    leader.hangs_up = True
    assert await channels.write(BrokerId(0), MARKER, frozenset({A})) == {
        A: ErrorCode.network_exception
    }
    leader.hangs_up = False
    assert await channels.write(BrokerId(0), MARKER, frozenset({A})) == {A: ErrorCode.none}
    assert len(leader.requests) == 2


@with_leader
async def test_a_broker_that_is_gone_is_no_answer(leader: Leader, channels: MarkerChannels) -> None:
    """T25: an unknown node waits"""
    results = await channels.write(BrokerId(9), MARKER, frozenset({A}))
    assert results == {A: ErrorCode.network_exception}


@with_leader
async def test_markers_for_partitions_that_this_broker_leads_need_no_request(
    leader: Leader, channels: MarkerChannels
) -> None:
    """T25"""
    assert await channels.write(BrokerId(1), MARKER, frozenset({A})) == {A: ErrorCode.none}
    assert not leader.requests
