"""The metrics listener: an HTTP port that serves GET /metrics to Prometheus.

A connection serves one request, with one deadline for all of it. So a client that is slow, silent
or speaks another protocol holds one of few places for a few seconds, and no more.
"""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple, cast

from barnabas.base.errors import ConfigError

log = logging.getLogger("barnabas.metrics")

MOST_CONNECTIONS: Final = 32
LARGEST_REQUEST: Final = 16 * 1024
DEADLINE_S: Final = 10.0

_END: Final = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r?\n")
_PLAIN: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus's text format


class Address(NamedTuple):
    """The listener's address; an empty host is every interface, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Raises ConfigError, unless it is HOST:PORT."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.%]*)\]|([^\[\]:/\s]*)):(\d{1,5})", text.strip())
    if found is None or int(found[3]) > 65535:
        raise ConfigError(
            f"barnabas.metrics.listener {text}: expected HOST:PORT, as in 127.0.0.1:9192 or :9192"
        )
    host = found[1] or found[2] or ""
    return Address("" if host in ("0.0.0.0", "::", "*") else host, int(found[3]))


class MetricsListener:
    """Serves what `page` gives, from `open` to `close`."""

    def __init__(self, page: Callable[[], bytes]) -> None:
        self._page = page
        self._server: asyncio.Server | None = None
        self._scrapes: dict[_Scrape, None] = {}

    async def open(self, address: Address) -> Address:
        """Listen; returns the address with the port it got.

        Raises  ConfigError, if the address is taken or not this machine's
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Scrape(self._page, self._scrapes, loop), address.host or None, address.port
            )
        except (OSError, socket.gaierror) as e:
            why = os.strerror(e.errno).lower() if e.errno and e.errno > 0 else e.strerror or str(e)
            raise ConfigError(f"barnabas.metrics.listener {address}: cannot listen: {why}") from e
        opened = address._replace(port=self._server.sockets[0].getsockname()[1])
        log.info("metrics served at http://%s/metrics", opened)
        return opened

    async def close(self) -> None:
        """Serve no more; fine if it was never opened."""
        if self._server is not None:
            self._server.close()
            for scrape in list(self._scrapes):
                scrape.abort()
            await self._server.wait_closed()


class _Scrape(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(
        self,
        page: Callable[[], bytes],
        others: "dict[_Scrape, None]",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._page = page
        self._others = others
        self._loop = loop
        self._received = b""
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._deadline = self._loop.call_later(DEADLINE_S, self.abort)
        self._others[self] = None
        if len(self._others) > MOST_CONNECTIONS:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        del self._others[self]

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return
        self._received += data
        if _END.search(self._received):
            self._serve(_REQUEST_LINE.match(self._received))
        elif not self._received[:1].isalpha():
            self._answer(HTTPStatus.BAD_REQUEST)  # another protocol, which may never end a line
        elif len(self._received) > LARGEST_REQUEST:
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def eof_received(self) -> bool:
        # A client that has sent its request may still read; the deadline bounds how long.
        return self._is_answered

    def _serve(self, request: re.Match[bytes] | None) -> None:
        if request is None:
            self._answer(HTTPStatus.BAD_REQUEST)
        elif request[1] not in (b"GET", b"HEAD"):
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, extra="Allow: GET, HEAD\r\n")
        else:
            with_body = request[1] == b"GET"
            match request[2].partition(b"?")[0]:
                case b"/metrics":
                    self._answer(HTTPStatus.OK, self._page(), _METRICS, with_body=with_body)
                case b"/":
                    self._answer(HTTPStatus.OK, b"see /metrics\n", with_body=with_body)
                case _:
                    self._answer(HTTPStatus.NOT_FOUND, with_body=with_body)

    def _answer(
        self,
        status: HTTPStatus,
        body: bytes | None = None,
        kind: str = _PLAIN,
        *,
        with_body: bool = True,
        extra: str = "",
    ) -> None:
        if body is None:
            body = f"{status.value} {status.phrase}\n".encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n{extra}\r\n"
        ).encode()
        self._is_answered = True
        self._transport.write(head + body if with_body else head)
        self._transport.close()
