"""The console's client of one cluster: Kafka's requests, and failures that a page can show.

Every page asks through it, on the event loop. Nothing is asked unless a page, a live view or an
action needs it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.base.errors import BarnabasError, ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.offload import InlineOffload, Offload
from barnabas.cli.connecting import NOT_SPOKEN
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.client.metadata import fields
from barnabas.client.retries import Address, error_words
from barnabas.client.security import PLAINTEXT, AuthenticationFailed, SecurityContext
from barnabas.console.cluster.bulk_requests import (
    CUT_SHORT,
    Frame,
    list_offsets,
    read_list_offsets,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

Key = TypeVar("Key")
Value = TypeVar("Value")
Answer = TypeVar("Answer")

CLIENT_ID: Final = "barnabas-console"
EARLIEST: Final = -2
LATEST: Final = -1
_ROUND_TRIPS: Final = 50
_BROKERS: Final = 1
_ALTER: Final = 7
_READ_AT_ONCE: Final = 16 * 1024  # bytes of a response that are read on the loop
_PATIENCE_S: Final = 5
_SILENT_S: Final = 10.0
_RETRIED: Final = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
)


class ClusterFailed(BarnabasError):
    """The cluster does not answer, or refuses; the text says what happened."""


class Unreachable(ClusterFailed):
    """No broker answers, or the one that must does not."""


class ListedBroker(NamedTuple):
    """A broker that is in the cluster now."""

    id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class ClusterSnapshot(NamedTuple):
    """The brokers and the controller, as one broker reports them."""

    cluster_id: str | None
    controller: int
    brokers: tuple[ListedBroker, ...]

    @property
    def ids(self) -> list[int]:
        return [broker.id for broker in self.brokers]


class ConsoleClient(RawClient):
    """Requests to one cluster. A method that fails raises ClusterFailed."""

    def __init__(
        self, bootstrap: str, security: SecurityContext = PLAINTEXT, offload: Offload | None = None
    ) -> None:
        """Large responses are read by `offload`."""
        super().__init__(bootstrap, client_id=CLIENT_ID, security=security)
        self.bootstrap = bootstrap
        self._offload = offload or InlineOffload()
        # The last round trips to each broker, in seconds.
        self._round_trips: dict[int, deque[float]] = {}
        # Barnabas describes its controller; None until it was asked.
        self.is_barnabas: bool | None = None
        self._apis: dict[int, frozenset[int]] = {}
        # Until when brokers that did not answer are not asked again.
        self._silent_until_s: dict[int, float] = {}

    async def view(self) -> ClusterSnapshot:
        """The brokers and the controller now."""
        answer = await self.checked(self.metadata(()))
        brokers = sorted(
            (
                ListedBroker(each.node_id, each.host, each.port, each.rack)
                for each in answer.brokers
            ),
        )
        if not brokers:
            raise Unreachable("a broker answers, but no broker is in the cluster yet")
        self._metadata.brokers = {each.id: (each.host, each.port) for each in brokers}
        self._metadata.controller = answer.controller_id
        return ClusterSnapshot(answer.cluster_id, answer.controller_id, tuple(brokers))

    async def describe(self, topics: Sequence[str]) -> Message:
        """The metadata of topics that exist."""
        return await self.checked(self.describe_topics(topics))

    async def checked(self, asked: Any) -> Any:
        """The result of a request; its failure is a ClusterFailed."""
        try:
            return await asked
        except (CommandFailed, AuthenticationFailed) as failure:
            text = _plain(str(failure))
            is_absent = text.startswith(_ABSENT) or NOT_SPOKEN in text
            kind = Unreachable if is_absent else ClusterFailed
            raise kind(text) from None
        except PeerGone as failure:
            raise Unreachable(_plain(str(failure))) from None

    async def ask_broker(self, broker: int, key: ApiKey, request: Message) -> Message:
        """The response of one broker. Raises ClusterFailed."""

        async def ask() -> Message:
            answer: Message = await self.checked(
                self._run(self._metadata.ask(broker, key, request))
            )
            return answer

        return await self.patiently(broker, ask)

    async def ask_by_hand(
        self,
        frames: Mapping[int, Iterator[Frame]],
        read: Callable[[memoryview], Mapping[Key, Value]],
    ) -> dict[int, dict[Key, Value]]:
        """The answers of brokers to requests about very many partitions, one after the other.

        A broker that does not answer, or not to all of them, is left out or has less.
        """
        found: dict[int, dict[Key, Value]] = {}

        async def ask_one(broker: int) -> None:
            for frame in frames[broker]:
                response = await self.patiently(broker, partial(self._exchange, broker, frame))
                is_small = len(response) <= _READ_AT_ONCE
                reads = partial(read, response)
                answer = reads() if is_small else await self._offload(reads)
                found.setdefault(broker, {}).update(answer)

        asked = await asyncio.gather(*map(ask_one, frames), return_exceptions=True)
        for failure in asked:
            if isinstance(failure, CUT_SHORT):
                raise ClusterFailed(f"a response cannot be read: {failure}")
            if failure is not None and not isinstance(failure, ClusterFailed):
                raise failure
        return found

    async def _exchange(self, broker: int, frame: Frame) -> memoryview:
        return await self.exchange(self.address_of(broker), frame, 2 * _PATIENCE_S)

    async def patiently(self, broker: int, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """An answer of a broker. Raises ClusterFailed.

        A broker that hangs costs a page some seconds once, not for each of its requests.
        """
        loop = asyncio.get_running_loop()
        if self.is_silent(broker):
            raise Unreachable(f"broker {broker} did not answer just now")
        if broker not in self._metadata.brokers:
            await self.view()
        began = loop.time()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await ask()
        except TimeoutError:
            self.note_silence(broker)
            raise Unreachable(f"broker {broker} did not answer within {_PATIENCE_S} s") from None
        trips = self._round_trips.setdefault(broker, deque(maxlen=_ROUND_TRIPS))
        trips.append(loop.time() - began)
        return answer

    def is_silent(self, broker: int) -> bool:
        """True if the broker did not answer a short time ago."""
        now = asyncio.get_running_loop().time()
        return now < self._silent_until_s.get(broker, float("-inf"))

    def note_silence(self, broker: int) -> None:
        """The broker did not answer a request."""
        self._silent_until_s[broker] = asyncio.get_running_loop().time() + _SILENT_S

    def round_trip_ms(self, broker: int) -> float | None:
        """The median of this console's last requests to a broker."""
        trips = self._round_trips.get(broker)
        return median(trips) * 1000 if trips else None

    async def ask_all(
        self, requests: Mapping[int, Message], key: ApiKey
    ) -> tuple[dict[int, Message], dict[int, str]]:
        """The responses of several brokers, and why others did not answer."""
        asked = [self.ask_broker(broker, key, request) for broker, request in requests.items()]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: dict[int, Message] = {}
        failed: dict[int, str] = {}
        for broker, answer in zip(requests, answers, strict=True):
            if isinstance(answer, ClusterFailed):
                failed[broker] = str(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[broker] = answer
        return found, failed

    async def ask_group(self, group: str, key: ApiKey, request: Message) -> Message:
        """The response of the group's coordinator. Raises ClusterFailed."""
        return await self.checked(self.ask_coordinator(group, key, request))

    async def offers(self, api: int) -> bool:
        """True if the cluster has this API, by the first broker that answers."""
        view = await self.view()
        for broker in view.ids:
            if broker not in self._apis:
                answer = await self.ask_broker(broker, ApiKey.API_VERSIONS, _WHO)
                self._apis[broker] = frozenset(each.api_key for each in answer.api_keys)
            return api in self._apis[broker]
        return False

    async def may_alter(self) -> bool:
        """True if the cluster lets this client's user alter it (ALTER on the cluster)."""
        request = fields(include_cluster_authorized_operations=True, endpoint_type=_BROKERS)
        broker = (await self.view()).ids[0]
        answer = await self.ask_broker(broker, ApiKey.DESCRIBE_CLUSTER, request)
        allowed = int(answer.cluster_authorized_operations)
        return allowed >= 0 and bool(allowed >> _ALTER & 1)

    def address_of(self, broker: int) -> Address:
        """Raises Unreachable, if the broker is not in the cluster"""
        try:
            return self._metadata.address(broker)
        except PeerGone as failure:
            raise Unreachable(str(failure)) from None

    async def exchange(
        self, address: Address, frame: Callable[[int], bytes], timeout_s: float
    ) -> memoryview:
        """The response to a frame that is written by hand. Raises ClusterFailed."""
        connection = await self.checked(self._client.connection(address))
        view: memoryview = await self.checked(connection.exchange(frame, timeout_s))
        return view

    # -- offsets -------------------------------------------------------------

    async def offsets(
        self, partitions: Iterable[TopicPartition], leaders: Mapping[TopicPartition, int], at: int
    ) -> dict[TopicPartition, int]:
        """The offset at a timestamp, or EARLIEST or LATEST, where a leader returns one."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            if leaders.get(partition, -1) >= 0:
                by_leader.setdefault(leaders[partition], []).append(partition)
        frames = {broker: list_offsets(CLIENT_ID, each, at) for broker, each in by_leader.items()}
        answers = await self.ask_by_hand(frames, read_list_offsets)
        return {each: offset for found in answers.values() for each, offset in found.items()}


def check(answer: Any, subject: str, message: str | None = None) -> None:
    """Raises ClusterFailed if the answer, or this part of it, has an error."""
    if answer.error_code is not ErrorCode.none:
        said = message or getattr(answer, "error_message", None)
        raise ClusterFailed(f"{subject}: {error_words(answer.error_code, said)}")


_ABSENT: Final = ("no Kafka broker answers", "the controller does not answer: ")
_WHO: Final = fields(client_software_name=CLIENT_ID, client_software_version="1")


def _plain(text: str) -> str:
    """The failure without hints for the command line."""
    return text.partition("; start one with")[0].partition("; name ")[0]
