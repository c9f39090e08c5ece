"""The channels of transaction markers: one queue per broker, many markers in a request.

Markers for partitions that this broker leads need no request: they are written at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, TopicPartition, by_topic
from barnabas.client.connection import AsyncConnection
from barnabas.config.broker_config import BrokerConfig
from barnabas.coordinator.result import TransactionEnd
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.peer_connections import PeerConnections
from barnabas.server.transactions.marker_writer import MarkerWriter, Results
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.records import ControlType, EndTransactionMarker
from barnabas.wire.schema import Message

log = logging.getLogger("barnabas.transactions.markers")

BACK_OFF_S: Final = 0.1


class Marker(NamedTuple):
    """The outcome of a transaction, as its coordinator decided it."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0

    @property
    def end(self) -> TransactionEnd:
        control_type = ControlType.COMMIT if self.is_commit else ControlType.ABORT
        return TransactionEnd(
            self.producer_id,
            self.producer_epoch,
            EndTransactionMarker(control_type, self.coordinator_epoch),
            self.transaction_version,
        )


class _Queued(NamedTuple):
    marker: Marker
    partitions: frozenset[TopicPartition]
    results: "asyncio.Future[Results]"


class MarkerChannel:
    """The queue of one broker; its task runs until it is cancelled."""

    def __init__(
        self,
        own_id: BrokerId,
        broker_id: BrokerId,
        config: BrokerConfig,
        metadata: MetadataCache,
        peers: PeerConnections,
    ) -> None:
        self._own_id = own_id
        self._broker_id = broker_id
        self._peers = peers
        self._metadata = metadata
        self._listener = config.inter_broker_listener_name()
        self._timeout_s = config.int("request.timeout.ms") / 1000
        self._peer: AsyncConnection | None = None
        self._version = 1
        self._queue: list[_Queued] = []
        self._filled = asyncio.Event()
        self._is_reached = True
        self.task = asyncio.ensure_future(self._run())

    def __len__(self) -> int:
        return sum(len(each.partitions) for each in self._queue)

    def write(
        self, marker: Marker, partitions: frozenset[TopicPartition]
    ) -> "asyncio.Future[Results]":
        """The error code of each partition; NETWORK_EXCEPTION for all if there is no answer."""
        results: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        self._queue.append(_Queued(marker, partitions, results))
        self._filled.set()
        return results

    async def _run(self) -> None:
        try:
            while True:
                await self._filled.wait()
                await self._send(self._next_batch())
        finally:
            if self._peer is not None:
                self._peer.close()
            for each in self._queue:
                each.results.cancel()

    def _next_batch(self) -> list[_Queued]:
        """All that waits, but one marker for each producer: answers are by producer id."""
        batch: dict[int, _Queued] = {}
        later = []
        for each in self._queue:
            if each.results.done():
                continue  # its coordinator resigned
            if each.marker.producer_id in batch:
                later.append(each)
            else:
                batch[each.marker.producer_id] = each
        self._queue = later
        if not later:
            self._filled.clear()
        return list(batch.values())

    async def _send(self, batch: list[_Queued]) -> None:
        if not batch:
            return
        try:
            peer = await self._connected()
            request = _request(batch)
            response = await peer.request(
                ApiKey.WRITE_TXN_MARKERS, self._version, request, self._timeout_s
            )
        except PeerGone as gone:
            if self._is_reached:
                log.warning("markers not sent broker=%d why=%s", self._broker_id, gone)
            self._is_reached = False
            _settle(batch, {})
            await asyncio.sleep(BACK_OFF_S)
            return
        self._is_reached = True
        _settle(batch, _results(response))

    async def _connected(self) -> AsyncConnection:
        if self._peer is None or self._peer.closed:
            broker = self._metadata.brokers.get(self._broker_id)
            if broker is None or self._listener not in broker.endpoints:
                raise PeerGone(f"broker {self._broker_id} has no listener {self._listener}")
            host, port = broker.endpoint(self._listener)
            self._peer = await self._peers.connect(host, port, str(self._own_id), self._timeout_s)
            versions = await self._peer.versions(self._timeout_s)
            self._version = versions.get(ApiKey.WRITE_TXN_MARKERS, 1)
        return self._peer


class MarkerDelays(Protocol):
    """The delays that a test sets."""

    def marker_delay_s(self) -> float: ...


class MarkerChannels:
    """The channels to all brokers that have led partitions of transactions."""

    def __init__(
        self,
        broker_id: BrokerId,
        config: BrokerConfig,
        metadata: MetadataCache,
        peers: PeerConnections,
        failures: FailureChannel,
        own: MarkerWriter,
        delays: MarkerDelays | None = None,
    ) -> None:
        """`own` writes to the partitions led here, in tests after a delay."""
        self._own = own
        self._delays = delays
        self._broker_id = broker_id
        self._config = config
        self._metadata = metadata
        self._peers = peers
        self._failures = failures
        self._channels: dict[BrokerId, MarkerChannel] = {}

    def write(
        self, broker_id: BrokerId, marker: Marker, partitions: frozenset[TopicPartition]
    ) -> Awaitable[Results]:
        """The error code of each partition; it may be sent again after NETWORK_EXCEPTION."""
        if broker_id == self._broker_id:
            return self._write_here(marker, partitions)
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = MarkerChannel(
                self._broker_id, broker_id, self._config, self._metadata, self._peers
            )
            channel.task.add_done_callback(self._on_end)
            self._channels[broker_id] = channel
        return channel.write(marker, partitions)

    def write_at_once(self, marker: Marker, partitions: Iterable[TopicPartition]) -> Results:
        """Write the markers that have to wait for nothing; returns the error code of each.

        Their partitions are led here, have no other replica, and are not of `__consumer_offsets`.
        """
        if self._delays is not None and self._delays.marker_delay_s():
            return {}
        end, metadata, own_id = marker.end, self._metadata, self._broker_id
        return {
            each: code
            for each in sorted(partitions)
            if metadata.leader(*each) == own_id
            and (code := self._own.write_at_once(each, end)) is not None
        }

    async def _write_here(self, marker: Marker, partitions: frozenset[TopicPartition]) -> Results:
        if self._delays is not None and (delay_s := self._delays.marker_delay_s()):
            await asyncio.sleep(delay_s)
        return await self._own.write(marker.end, sorted(partitions))

    @property
    def queued(self) -> int:
        """How many markers wait to be sent."""
        return sum(len(channel) for channel in self._channels.values())

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (broken := task.exception()) is not None:
            self._failures.fatal(broken)

    async def close(self) -> None:
        tasks = [channel.task for channel in self._channels.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _request(batch: list[_Queued]) -> Message:
    # Here: most brokers start long before their first transaction ends.
    from kio.schema.write_txn_markers.v2.request import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    return WriteTxnMarkersRequest(
        markers=tuple(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.is_commit,
                topics=tuple(
                    WritableTxnMarkerTopic(name=name, partition_indexes=tuple(indexes))
                    for name, indexes in by_topic(sorted(partitions)).items()
                ),
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, partitions, _ in batch
        )
    )


def _results(response: Message) -> dict[tuple[int, TopicPartition], ErrorCode]:
    """The error code of each producer id and partition."""
    return {
        (marker.producer_id, TopicPartition(topic.name, each.partition_index)): each.error_code
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }


def _settle(batch: list[_Queued], codes: Mapping[tuple[int, TopicPartition], ErrorCode]) -> None:
    """A partition that the answer lacks is sent again, as if there were none."""
    for marker, partitions, results in batch:
        if not results.done():
            results.set_result(
                {
                    each: codes.get((marker.producer_id, each), ErrorCode.network_exception)
                    for each in partitions
                }
            )
