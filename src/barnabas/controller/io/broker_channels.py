"""The controller's line to each live broker: requests in order, one at a time, until answered.

A request is repeated until the broker answers it or its channel is closed, because the broker is
gone, has come back as another (a new broker epoch), or the controller is no more. What a broker
answers returns as an event; nothing here decides.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.base.errors import PeerGone
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId
from barnabas.controller.context import LiveBroker
from barnabas.controller.events import Event
from barnabas.controller.io.broker_responses import decide_event
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.controller.io.superseded_requests import without_superseded
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

log = logging.getLogger("barnabas.controller.channels")

BACK_OFF_S: Final = 0.1
# From this length on, and whenever it has doubled, a queue is cleared of what is superseded.
_LONG_QUEUE: Final = 256


class ControlPeer(Protocol):
    """A connection to a broker, as the controller uses it."""

    @property
    def closed(self) -> bool: ...

    async def request(
        self, key: ApiKey, version: int, message: Message, timeout_s: float
    ) -> Message:
        """Raises PeerGone, and is closed then."""
        ...

    def close(self) -> None: ...


Connect: TypeAlias = Callable[[LiveBroker], Awaitable[ControlPeer]]
# The controller's own broker, asked without a connection.
Local: TypeAlias = Callable[[ControlRequest], Awaitable[Message]]


class LocalPeer:
    """The controller's own broker in the place of a connection."""

    closed = False

    def __init__(self, local: Local) -> None:
        self._local = local

    async def request(
        self, key: ApiKey, version: int, message: Message, timeout_s: float
    ) -> Message:
        # Whoever closes a channel must not leave the broker with a request half applied.
        task = asyncio.ensure_future(self._local(ControlRequest(key, version, message)))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    def close(self) -> None:
        """There is nothing to close."""


class ChannelState(NamedTuple):
    queue: int
    in_flight: int


class Channel:
    """The line to one broker in one of its epochs; its task runs until it is cancelled."""

    def __init__(
        self,
        broker: LiveBroker,
        connect: Connect,
        on_answer: Callable[[Event], None],
        timeout_s: Callable[[], float],
    ) -> None:
        self.broker = broker
        self._connect = connect
        self._on_answer = on_answer
        self._timeout_s = timeout_s
        self._peer: ControlPeer | None = None
        self._queue: deque[ControlRequest] = deque()
        self._filled = asyncio.Event()
        self._in_flight = 0
        self._long = _LONG_QUEUE
        self.task = asyncio.create_task(self._run(), name=f"channel to {broker.broker_id}")

    @property
    def state(self) -> ChannelState:
        return ChannelState(len(self._queue), self._in_flight)

    def send(self, requests: Iterable[ControlRequest]) -> None:
        self._queue.extend(requests)
        self._filled.set()
        if len(self._queue) >= self._long:
            self._shorten()

    def _shorten(self) -> None:
        length, self._queue = len(self._queue), deque(without_superseded(self._queue))
        self._long = max(_LONG_QUEUE, 2 * len(self._queue))
        log.warning(
            "broker does not keep up broker=%d queue=%d needed=%d",
            self.broker.broker_id,
            length,
            len(self._queue),
        )

    async def _run(self) -> None:
        try:
            while True:
                while self._queue:
                    await self._deliver(self._queue.popleft())
                self._filled.clear()
                await self._filled.wait()
        finally:
            if self._peer is not None:
                self._peer.close()

    async def _deliver(self, request: ControlRequest) -> None:
        self._in_flight = 1
        answer = await self._answer(request)
        self._in_flight = 0
        event = decide_event(self.broker.broker_id, request, answer)
        if event is not None:
            self._on_answer(event)

    async def _answer(self, request: ControlRequest) -> Message:
        told = False
        while True:
            try:
                return await self._ask(request)
            except PeerGone as gone:
                if not told:
                    log.warning("broker does not answer broker=%d: %s", self.broker.broker_id, gone)
                told = True
                await asyncio.sleep(BACK_OFF_S)

    async def _ask(self, request: ControlRequest) -> Message:
        if self._peer is None or self._peer.closed:
            self._peer = await self._connect(self.broker)
        return await self._peer.request(*request, timeout_s=self._timeout_s())


class Channels:
    """One channel for every live broker."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        connect: Connect,
        local: Local,
        on_answer: Callable[[Event], None],
        failures: FailureChannel,
        timeout_s: Callable[[], float],
    ) -> None:
        self._own_id = own_id
        self._connect = connect
        self._local = local
        self._on_answer = on_answer
        self._failures = failures
        self._timeout_s = timeout_s
        self._channels: dict[BrokerId, Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def set_brokers(self, live: Mapping[BrokerId, LiveBroker]) -> None:
        """Keep a channel to each of these in their epochs, and to no other."""
        for broker_id, channel in list(self._channels.items()):
            now = live.get(broker_id)
            if now is None or now.epoch != channel.broker.epoch:
                self._close(broker_id)
        for broker in live.values():
            known = self._channels.get(broker.broker_id)
            if known is None:
                self._channels[broker.broker_id] = self._open(broker)
            else:
                known.broker = broker

    def send(self, requests: Mapping[BrokerId, Iterable[ControlRequest]]) -> None:
        """Put requests into the queues; what is for a broker without a channel is dropped."""
        for broker_id, each in requests.items():
            if broker_id in self._channels:
                self._channels[broker_id].send(each)

    def states(self) -> dict[BrokerId, ChannelState]:
        return {broker_id: channel.state for broker_id, channel in self._channels.items()}

    async def close(self) -> None:
        """Give up everything; on return nothing is under way any more."""
        for broker_id in list(self._channels):
            self._close(broker_id)
        if self._closing:
            await asyncio.wait(self._closing)

    def _open(self, broker: LiveBroker) -> Channel:
        connect = self._connect_local if broker.broker_id == self._own_id else self._connect
        channel = Channel(broker, connect, self._on_answer, self._timeout_s)
        channel.task.add_done_callback(self._on_end)
        return channel

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        self._closing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.fatal(error)

    async def _connect_local(self, broker: LiveBroker) -> ControlPeer:
        return LocalPeer(self._local)

    def _close(self, broker_id: BrokerId) -> None:
        """Give up all that is not answered."""
        task = self._channels.pop(broker_id).task
        if not task.done():
            task.cancel()
            self._closing.add(task)
