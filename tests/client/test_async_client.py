"""A client on an event loop: one connection to each broker, in the broker's versions."""

import asyncio
import contextlib
import gc
import struct
from collections.abc import AsyncIterator
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from barnabas.base.errors import PeerGone
from barnabas.client.async_client import AsyncClient
from barnabas.client.connection import AsyncConnection
from barnabas.client.retries import Address
from barnabas.wire.apis import APIS, ApiKey

SOON = 20.0
KEY = ApiKey.METADATA


class OldBroker:
    """Speaks an old version of one API, and takes its time to say so."""

    def __init__(self) -> None:
        self.connections = 0
        self.was_asked = asyncio.Event()
        self.was_left = asyncio.Event()
        self.asked: list[tuple[int, int]] = []
        self.may_answer = asyncio.Event()
        self.address: Address = ("", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                key, version, number = struct.unpack_from(">hhi", await reader.readexactly(size))
                self.asked.append((key, version))
                self.was_asked.set()
                if key != ApiKey.API_VERSIONS:
                    break
                await self.may_answer.wait()
                body = struct.pack(">ihihhh", number, 0, 1, KEY, 0, APIS[KEY].lowest)
                writer.write(struct.pack(">i", len(body)) + body)
        writer.close()
        self.was_left.set()


@contextlib.asynccontextmanager
async def old_broker() -> AsyncIterator[OldBroker]:
    broker = OldBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with server:
        broker.address = ("127.0.0.1", server.sockets[0].getsockname()[1])
        yield broker


def new_client() -> AsyncClient:
    return AsyncClient("test", connect_s=SOON, request_s=SOON, negotiate=True)


async def ask(client: AsyncClient, broker: OldBroker) -> None:
    request = SimpleNamespace(topics=(), allow_auto_topic_creation=False)
    with pytest.raises(PeerGone):
        await client.ask_at(broker.address, KEY, request)


def test_requests_at_once_share_a_connection_and_speak_the_brokers_version() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(SOON), old_broker() as broker:
            client = new_client()
            both = asyncio.gather(ask(client, broker), ask(client, broker))
            await broker.was_asked.wait()
            broker.may_answer.set()
            await both
            client.close()
            assert broker.connections == 1
            assert broker.asked[:2] == [(ApiKey.API_VERSIONS, 0), (KEY, APIS[KEY].lowest)]

    asyncio.run(scenario())


def test_a_request_after_one_that_was_cancelled_speaks_the_brokers_version() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(SOON), old_broker() as broker:
            client = new_client()
            first = asyncio.ensure_future(client.ask_at(broker.address, KEY, None))
            await broker.was_asked.wait()
            first.cancel()
            second = asyncio.ensure_future(ask(client, broker))
            await asyncio.sleep(0)
            broker.may_answer.set()
            await second
            client.close()
            assert broker.asked == [(ApiKey.API_VERSIONS, 0), (KEY, APIS[KEY].lowest)]

    asyncio.run(scenario())


def test_a_connection_that_opens_while_the_client_closes_is_closed_too() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(SOON), old_broker() as broker:
            client = new_client()
            asking = asyncio.ensure_future(ask(client, broker))
            await broker.was_asked.wait()
            client.close()
            broker.may_answer.set()
            await asking
            await broker.was_left.wait()

    asyncio.run(scenario())


def test_a_connection_that_fails_after_all_who_waited_gave_up_leaves_no_error_behind() -> None:
    """The simulation found it: a task's exception that nobody retrieved."""

    async def scenario() -> None:
        unheard: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unheard.append(context["message"]))
        client, may_fail = new_client(), asyncio.Event()

        async def refused(*_: object, **__: object) -> AsyncConnection:
            await may_fail.wait()
            raise PeerGone("refused")

        with patch.object(AsyncConnection, "connect", refused):
            waiting = asyncio.ensure_future(client.connection(("broker", 9092)))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait((waiting,))
            del waiting
            may_fail.set()
            for _ in range(3):
                await asyncio.sleep(0)
        gc.collect()
        assert unheard == []

    asyncio.run(scenario())


def test_a_connection_is_closed_when_its_loop_ends_before_it_is_ready() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(SOON), old_broker() as broker:
            client = new_client()
            asked = asyncio.ensure_future(ask(client, broker))
            await broker.was_asked.wait()
            # As asyncio.run ends: it cancels every task, those behind a shield, too.
            (opening,) = client._opening.values()
            opening.cancel()
            broker.may_answer.set()
            await broker.was_left.wait()
            assert asked.cancelled()

    asyncio.run(scenario())
