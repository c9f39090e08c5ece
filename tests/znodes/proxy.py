"""A TCP proxy to a server, which can be cut and restored for one client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Proxy:
    """Forwards bytes to `target`, a host:port; refuses connections while cut."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.partition(":")
        self._open = True
        self._to_forget = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: list[asyncio.Task[None]] = []
        self.port = 0

    def cut(self) -> None:
        """Reset every connection; forward nothing more."""
        self._open = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def mend(self) -> None:
        self._open = True

    def forget(self, connections: int) -> None:
        """Accept this many of the next connections, and never respond on them."""
        self._to_forget = connections

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        try:
            if self._open and self._to_forget:
                self._to_forget -= 1
                await reader.read()
            elif self._open:
                await self._pass_all(reader, writer)
        finally:
            writer.transport.abort()

    async def _pass_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(self._host, int(self._port))
            self._writers += [writer, far_writer]
            if not self._open:
                self.cut()
            await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))

    async def ended(self) -> None:
        await asyncio.gather(*self._serving, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def proxy_to(target: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await proxy.ended()
