"""The keys that sign bearer tokens, read from a file or over https, and again from time to time.

Reading happens in a thread. A token with a key that is not known makes the next reading sooner.
"""

import asyncio
import logging
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from barnabas.base.errors import ConfigError
from barnabas.base.offload import Offload
from barnabas.client.tls import client_context
from barnabas.security.oauth_settings import JwksSource

log = logging.getLogger("barnabas.sasl")

_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 1024 * 1024
_LOOKS_EVERY_S: Final = 1.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A server that is allowed must not name another one that is not."""

    def redirect_request(self, *_: Any) -> None:
        return None


class JwksRefresher:
    """Reads the keys of all listeners, from `start` to `stop`."""

    def __init__(self, sources: Sequence[JwksSource], offload: Offload) -> None:
        self._sources = sources
        self._offload = offload
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read all keys once. Raises ConfigError, if a file cannot be used."""
        for source in self._sources:
            try:
                await self._read(source)
            except ConfigError as error:
                if source.url.startswith("file:"):
                    raise
                log.warning("keys of tokens not read, trying again: %s", error)
            self._tasks.append(asyncio.ensure_future(self._follow(source)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, source: JwksSource) -> None:
        source.tokens.use(await self._offload(partial(fetch, source.url, source.tls)))

    async def _follow(self, source: JwksSource) -> None:
        backoff_s, due_s = source.backoff_s, source.refresh_s
        while True:
            await self._due(source, due_s)
            try:
                await self._read(source)
                backoff_s, due_s = source.backoff_s, source.refresh_s
            except ConfigError as error:
                log.warning("keys of tokens not read: %s", error)
                source.tokens.wants_refresh = False
                due_s, backoff_s = backoff_s, min(2 * backoff_s, source.backoff_max_s)

    async def _due(self, source: JwksSource, due_s: float) -> None:
        left_s = due_s
        while left_s > 0 and not source.tokens.wants_refresh:
            await asyncio.sleep(min(left_s, _LOOKS_EVERY_S))
            left_s -= _LOOKS_EVERY_S


def fetch(url: str, tls: dict[str, str]) -> str:
    """The document at an URL that is allowed. Raises ConfigError."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(urllib.parse.unquote(parts.path)).read_text("utf-8")
        context: ssl.SSLContext = client_context(tls)
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects()
        )
        with opener.open(url, timeout=_TIMEOUT_S) as response:
            return str(response.read(_MOST_BYTES), "utf-8")
    except (OSError, ValueError, urllib.error.URLError) as failure:
        raise ConfigError(f"{url}: {failure}") from None
