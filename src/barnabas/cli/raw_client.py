"""Asks brokers what librdkafka cannot ask: Kafka's own requests, over plain connections of ours.

For APIs about the cluster as a whole, most of which only the controller answers.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.options import parse_bootstrap
from barnabas.client.peer import Peer
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import Message

_CLIENT_ID: Final = "barnabas-cli"
_CONNECT_TIMEOUT_S: Final = 3.0
_TELL_TIMEOUT_S: Final = 10.0
_CHANGE_TIMEOUT_S: Final = 70.0  # longer than brokers take to give up, so that they say why
_ATTEMPTS: Final = 20
_BACK_OFF_S: Final = 0.25
_DEFAULT_PORT: Final = 9092
_CHANGES: Final = (
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
)

Result = TypeVar("Result")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


def parse_addresses(bootstrap: str) -> list[Address]:
    """The brokers of a bootstrap list. Raises Misused if one of them cannot be meant."""
    addresses = []
    for broker in parse_bootstrap(bootstrap).split(","):
        host, colon, port = broker.strip().rpartition("://")[2].rpartition(":")
        if not colon or port.endswith("]"):
            host, port = f"{host}{colon}{port}", str(_DEFAULT_PORT)
        addresses.append(Address(host.strip("[]"), int(port)))
    return addresses


class RawClient:
    """Connections to the brokers of one cluster, each made when it is first needed."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._addresses = parse_addresses(bootstrap)
        self._peers: dict[Address, Peer] = {}

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    async def metadata(self, topics: Sequence[str] | None = ()) -> Message:
        """Brokers, controller and these topics (None: all), from the first broker that answers.

        Raises  CommandFailed if none does
        """
        named = None if topics is None else tuple(map(_named, topics))
        request = MetadataRequest(
            topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        reasons = []
        for address in self._addresses:
            try:
                return await self._exchange(address, ApiKey.METADATA, request)
            except PeerGone as gone:
                reasons.append(_reason(gone))
        raise CommandFailed(
            f"no Kafka broker answers at {self._bootstrap} ({'; '.join(reasons)});"
            " start one with `barnabas server`, or name another with -b HOST:PORT"
        )

    async def ask(self, broker_id: int, key: ApiKey, request: Message) -> Message:
        """What one broker answers. Raises PeerGone if it is not there."""
        for broker in (await self.metadata()).brokers:
            if broker.node_id == broker_id:
                return await self._exchange(Address(broker.host, broker.port), key, request)
        raise PeerGone(f"broker {broker_id} is not in the cluster")

    async def ask_controller(self, key: ApiKey, request: Message) -> Message:
        """What the controller answers; while there is none, or it moves, asks again.

        Raises  CommandFailed if that goes on for some seconds
        """
        reason = "there is no controller"
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_BACK_OFF_S)
            controller_id = (await self.metadata()).controller_id
            if controller_id < 0:
                continue
            try:
                answer = await self.ask(controller_id, key, request)
            except PeerGone as gone:
                reason = str(gone)
                continue
            if getattr(answer, "error_code", ErrorCode.none) is not ErrorCode.not_controller:
                return answer
            reason = f"broker {controller_id} is no longer the controller"
        raise CommandFailed(f"the controller does not answer: {reason}")

    async def _exchange(self, address: Address, key: ApiKey, request: Message) -> Message:
        peer = self._peers.get(address)
        if peer is None or peer.closed:
            peer = await Peer.connect(*address, client_id=_CLIENT_ID, timeout_s=_CONNECT_TIMEOUT_S)
            self._peers[address] = peer
        timeout_s = _CHANGE_TIMEOUT_S if key in _CHANGES else _TELL_TIMEOUT_S
        return await peer.request(key, APIS[key].highest, request, timeout_s)


def _reason(gone: PeerGone) -> str:
    """The system's own words for why a connection failed, or ours."""
    cause = gone.__cause__
    if isinstance(cause, OSError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0)
    return str(gone)


def _named(topic: str) -> Message:
    return MetadataRequestTopic(topic_id=None, name=topic)


def ask_cluster(bootstrap: str, work: Callable[[RawClient], Awaitable[Result]]) -> Result:
    """Run `work` with a client that is closed afterwards.

    Raises  CommandFailed, also for a broker that goes away amid it
    """

    async def run() -> Result:
        client = RawClient(bootstrap)
        try:
            return await work(client)
        except PeerGone as gone:
            raise CommandFailed(str(gone)) from None
        finally:
            client.close()

    return asyncio.run(run())


def refusal(code: ErrorCode, message: str | None) -> str:
    """The broker's own words, or the error's name put plainly, and the name of the error."""
    return f"{(message or code.name.replace('_', ' ')).rstrip('.')} [{code.name.upper()}]"
