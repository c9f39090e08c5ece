"""Kafka's own requests, for what librdkafka cannot ask; over our own connections.

Most of them are about the cluster as a whole, and only the controller answers them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.cli.connecting import CHECK_CREDENTIALS, given_security, is_refusal, unreached
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.options import parse_bootstrap
from barnabas.client.async_client import AsyncClient
from barnabas.client.coordinator import (
    GROUP,
    TRANSACTION,
    CoordinatorRefused,
    ask_coordinator,
    find_coordinator,
    first_error,
)
from barnabas.client.metadata import Metadata, NoBrokerReached, fields
from barnabas.client.retries import Address, RetriableError, Steps, attempts, error_words
from barnabas.client.security import AuthenticationFailed, SecurityContext
from barnabas.client.versions import UnsupportedApi
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

_CLIENT_ID: Final = "barnabas-cli"
_CONNECT_TIMEOUT_S: Final = 3.0
_REQUEST_TIMEOUT_S: Final = 10.0
_CHANGE_TIMEOUT_S: Final = 70.0  # longer than brokers take to give up, so they report why
_CONTROLLER_ATTEMPTS: Final = 20
_COORDINATOR_ATTEMPTS: Final = 40
_BACK_OFF_S: Final = 0.25
_DEFAULT_PORT: Final = 9092
_CLOSED: Final = "closed the connection"  # as a listener with TLS does to bytes of a plain client
_CHANGES: Final = (
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
)

Result = TypeVar("Result")


def parse_addresses(bootstrap: str) -> list[Address]:
    """The brokers of a bootstrap list. Raises Misused if one of them cannot be meant."""
    addresses = []
    for broker in parse_bootstrap(bootstrap).split(","):
        host, colon, port = broker.strip().rpartition("://")[2].rpartition(":")
        if not colon or port.endswith("]"):
            host, port = f"{host}{colon}{port}", str(_DEFAULT_PORT)
        addresses.append((host.strip("[]"), int(port)))
    return addresses


class RawClient:
    """A client of one cluster. A request that cannot be answered is a CommandFailed."""

    def __init__(
        self,
        bootstrap: str,
        security: SecurityContext | None = None,
        *,
        client_id: str = _CLIENT_ID,
    ) -> None:
        """Without `security`, the command line says it."""
        self._bootstrap = bootstrap
        self._metadata = Metadata(parse_addresses(bootstrap))
        self._client = AsyncClient(
            client_id,
            connect_s=_CONNECT_TIMEOUT_S,
            request_s=_REQUEST_TIMEOUT_S,
            slow_s=dict.fromkeys(_CHANGES, _CHANGE_TIMEOUT_S),
            negotiate=True,
            security=given_security() if security is None else security,
        )

    def close(self) -> None:
        self._client.close()

    async def metadata(self, topics: Sequence[str] | None = ()) -> Message:
        """Brokers, controller and these topics (None: all), from the first broker that answers.

        Raises  CommandFailed if none does
        """
        named = None if topics is None else tuple(fields(name=topic) for topic in topics)
        request = fields(topics=named, allow_auto_topic_creation=False)
        response: Message = await self._run(self._metadata.ask_any(ApiKey.METADATA, request))
        return response

    async def describe_topics(self, topics: Sequence[str]) -> Message:
        """The same, of topics that exist. Raises CommandFailed for the first that does not."""
        response = await self.metadata(topics)
        for topic in response.topics:
            if topic.error_code is not ErrorCode.none:
                raise CommandFailed(f"topic {topic.name}: {error_words(topic.error_code)}")
        return response

    async def ask(self, broker_id: int, key: ApiKey, request: Message) -> Message:
        """The response of one broker. Raises PeerGone if it is not reached."""
        try:
            await self._run(self._metadata.refresh(()))
        except RetriableError as unknown:
            raise PeerGone(str(unknown)) from None
        response: Message = await self._run(self._metadata.ask(broker_id, key, request))
        return response

    def speaks(self, broker_id: int, key: ApiKey, version: int = 0) -> bool:
        """True if a broker that has answered knows the API in this version, or a later one."""
        try:
            return self._client.version_at(self._metadata.address(broker_id), key) >= version
        except (PeerGone, UnsupportedApi):
            return False

    async def ask_controller(self, key: ApiKey, request: Message) -> Message:
        """The response of the controller, which may move meanwhile.

        Raises  CommandFailed if there is none for some seconds
        """
        retry = attempts(_CONTROLLER_ATTEMPTS, _BACK_OFF_S)
        try:
            response: Message = await self._run(self._metadata.ask_controller(key, request, retry))
        except (PeerGone, RetriableError) as failure:
            raise CommandFailed(f"the controller does not answer: {failure}") from None
        return response

    async def ask_coordinator(
        self,
        name: str,
        key: ApiKey,
        request: Message,
        kind: int = GROUP,
        error_of: Callable[[Message], ErrorCode] = first_error,
    ) -> Message:
        """The response of the coordinator of a group or id, which may move or load meanwhile.

        Raises  CommandFailed if there is none for some seconds, PeerGone
        """
        retry = attempts(_COORDINATOR_ATTEMPTS, _BACK_OFF_S)
        steps = ask_coordinator(
            self._metadata, name, key, request, retry, error_of, (PeerGone,), kind
        )
        try:
            response: Message = await self._run(steps)
        except (RetriableError, CoordinatorRefused) as failure:
            raise CommandFailed(str(failure)) from None
        return response

    async def ask_transaction_coordinator(
        self, transactional_id: str, key: ApiKey, request: Message
    ) -> tuple[int, Message]:
        """The broker id of the coordinator of a transactional id, and its response.

        Raises  CommandFailed if there is none for some seconds, PeerGone
        """
        answer = await self.ask_coordinator(
            transactional_id, key, request, TRANSACTION, _error_of_the_first
        )
        found = await self._run(find_coordinator(self._metadata, transactional_id, TRANSACTION))
        await self._run(self._metadata.refresh(()))
        ids = {address: broker for broker, address in self._metadata.brokers.items()}
        return ids.get(found, -1), answer

    async def _run(self, steps: Steps[Result]) -> Result:
        try:
            return await self._client.run(steps)
        except NoBrokerReached as gone:
            reasons = "; ".join(map(_reason, gone.reasons))
            if is_refusal(reasons):
                raise CommandFailed(
                    f"{self._bootstrap} refuses the connection ({reasons}); {CHECK_CREDENTIALS}"
                ) from None
            closed = _CLOSED in reasons
            raise CommandFailed(
                unreached(self._bootstrap, f" ({reasons})", closed=closed)
            ) from None
        except (UnsupportedApi, AuthenticationFailed) as failed:
            raise CommandFailed(str(failed)) from None


def _error_of_the_first(response: Message) -> ErrorCode:
    """The error of the one transactional id that was asked for."""
    code: ErrorCode = response.transaction_states[0].error_code
    return code


def _reason(gone: PeerGone) -> str:
    """The system's own words for why a connection failed, or ours."""
    cause = gone.__cause__
    if isinstance(cause, OSError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0)
    return str(gone)


def ask_cluster(bootstrap: str, work: Callable[[RawClient], Awaitable[Result]]) -> Result:
    """Run `work` with a client that is closed afterwards.

    Raises  CommandFailed, also for a broker that goes away meanwhile
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
