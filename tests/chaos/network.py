"""A network of proxies between brokers, and from each to ZooKeeper, that can hold bytes back.

A broker advertises a proxy's port to the others. The proxy reads the sender from the client id of
the first request, so each direction between two brokers can be cut separately. Clients bypass the
proxies: they still reach a broker that is cut off from all others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from threading import Thread
from typing import Any, Final, NamedTuple, TypeVar

ZOOKEEPER: Final = -1
# Size, API key, version, correlation id, length of the client id.
_HEAD: Final = Struct(">ihhih")
_PIECE: Final = 65_536

_T = TypeVar("_T")


class Cut(NamedTuple):
    """A direction that can be cut: from one broker to another or to ZooKeeper, or back."""

    source: int
    target: int
    only_fetches: bool = False
    only_answers: bool = False


def isolation(broker: int, others: list[int]) -> list[Cut]:
    """All directions between a broker and others."""
    return [
        cut for other in others for cut in (Cut(broker, other), Cut(other, broker)) if other >= 0
    ] + [Cut(broker, ZOOKEEPER) for other in others if other == ZOOKEEPER]


@dataclass(eq=False, slots=True)
class _Link:
    """One proxied connection."""

    source: int
    target: int
    fetches: bool
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter

    def is_cut_by(self, cut: Cut, *, answer: bool) -> bool:
        return (
            (cut.source, cut.target) == (self.source, self.target)
            and (self.fetches or not cut.only_fetches)
            and (answer or not cut.only_answers)
        )

    def abort(self) -> None:
        self.near.transport.abort()
        self.far.transport.abort()


class Network:
    """All proxies of a cluster, on their own thread until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._cuts: list[Cut] = []
        self._changed = asyncio.Event()
        self._links: list[_Link] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = Thread(target=self._loop.run_forever, name="network")
        self._thread.start()

    def close(self) -> None:
        """Close all connections, and wait until that is done."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open_to_broker(self, target: int, port: int) -> int:
        """The port on which the other brokers reach one that listens on `port`."""

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first, client_id = await _read_first(reader)
            fetches = client_id.startswith("broker-")
            source = int(client_id.split("-")[1] if fetches else client_id)
            await self._pass(source, target, fetches, port, first, reader, writer)

        return self._run(self._serve(handle))

    def open_to_zookeeper(self, source: int, port: int) -> int:
        """The port on which one broker reaches ZooKeeper."""

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._pass(source, ZOOKEEPER, False, port, b"", reader, writer)

        return self._run(self._serve(handle))

    def cut(self, cuts: list[Cut]) -> None:
        """Hold all bytes in these directions; connections stay open, neither end notices."""
        self._run(self._set([*self._cuts, *cuts]))

    def mend(self, cuts: list[Cut] | None = None, *, breaking: bool = False) -> None:
        """Forward the held bytes of these directions, or of all; or reset the connections."""
        self._run(self._mend(self._cuts if cuts is None else cuts, breaking))

    # -- on the network's thread -----------------------------------------------

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _serve(
        self, handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    ) -> int:
        async def supervised(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving.add(task)
            try:
                # Either end may close at any time. A cancellation ends here as well: asyncio would
                # report it in a callback.
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await handle(reader, writer)
            finally:
                self._serving.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(supervised, "127.0.0.1", 0)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _pass(
        self,
        source: int,
        target: int,
        fetches: bool,
        port: int,
        first: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        link = _Link(source, target, fetches, writer, far_writer)
        self._links.append(link)
        try:
            await asyncio.gather(
                self._pump(link, first, reader, far_writer, answer=False),
                self._pump(link, b"", far_reader, writer, answer=True),
            )
        finally:
            self._links.remove(link)
            link.abort()

    async def _pump(
        self,
        link: _Link,
        first: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        answer: bool,
    ) -> None:
        with suppress(OSError):
            piece = first or await reader.read(_PIECE)
            while piece:
                while any(link.is_cut_by(cut, answer=answer) for cut in self._cuts):
                    await self._changed.wait()
                writer.write(piece)
                await writer.drain()
                piece = await reader.read(_PIECE)
        link.abort()

    async def _mend(self, mended: list[Cut], breaking: bool) -> None:
        if breaking:
            for link in self._links:
                if any(link.is_cut_by(cut, answer=True) for cut in mended):
                    link.abort()
        await self._set([cut for cut in self._cuts if cut not in mended])

    async def _set(self, cuts: list[Cut]) -> None:
        self._cuts = cuts
        self._changed.set()
        self._changed = asyncio.Event()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await self._set([])
        for link in self._links:
            link.abort()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)


async def _read_first(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """The beginning of the first request, and its sender."""
    head = await reader.readexactly(_HEAD.size)
    client_id = await reader.readexactly(_HEAD.unpack(head)[-1])
    return head + client_id, client_id.decode()
