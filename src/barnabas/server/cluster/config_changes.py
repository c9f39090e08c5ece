"""Notifications of changed properties, which brokers write below /config/changes."""

import asyncio
import logging
from typing import Final

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.server.cluster.config_admin import ConfigAdmin
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import (
    Coordination,
    MalformedZnode,
    NoNode,
    SessionExpired,
    WatchEvent,
)

log = logging.getLogger("barnabas.configs")

RETRY_S: Final = 0.5


class ConfigChanges:
    """Watches /config/changes, and refreshes each entity in the order of the changes."""

    def __init__(self, coordination: Coordination, config_admin: ConfigAdmin) -> None:
        self._coordination = coordination
        self._config_admin = config_admin
        self._news = asyncio.Event()
        self._last_seen = -1
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watch for changes; those announced before are known already."""
        self._last_seen = max((number for number, _ in await self._announced()), default=-1)
        if self._task is None:
            self._task = asyncio.ensure_future(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_event(self, _: WatchEvent) -> None:
        self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._read_news()
            except SessionExpired:
                pass  # the next session calls `start` again, and reads all
            except LawBroken:
                raise
            except BarnabasError as e:
                log.warning("reloading changed configs why=%s", e)
                await asyncio.sleep(RETRY_S)
                self._news.set()

    async def _read_news(self) -> None:
        for number, name in await self._announced():
            if number > self._last_seen:
                await self._read(f"{paths.CONFIG_CHANGES}/{name}")
                self._last_seen = number

    async def _announced(self) -> list[tuple[int, str]]:
        """The changes there are, in their order; what is not named as one is not one."""
        names = await self._coordination.children(paths.CONFIG_CHANGES, self._on_event)
        own = (name for name in names if name.rpartition("_")[2].isdecimal())
        return sorted((paths.sequence_number(name), name) for name in own)

    async def _read(self, path: str) -> None:
        try:
            data, _ = await self._coordination.get(path)
            await self._config_admin.refresh(layout.decode_config_change(path, data))
        except NoNode:
            pass  # removed as too old
        except MalformedZnode as e:
            log.warning("ignoring an unreadable config change: %s", e)
