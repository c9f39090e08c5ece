"""The finalized features of the cluster, as the znode `/feature` has them."""

import asyncio
import logging
from typing import Final

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.base.ids import BrokerId
from barnabas.server.cluster.feature_decisions import (
    TRANSACTION_VERSION,
    decide_default,
    decide_update,
)
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes import layout, paths
from barnabas.znodes.layout import FinalizedFeatures
from barnabas.znodes.tree import (
    BadVersion,
    Coordination,
    MalformedZnode,
    NodeExists,
    NoNode,
    SessionExpired,
    WatchEvent,
)

log = logging.getLogger("barnabas.features")

NO_NODE: Final = -1
RETRY_S: Final = 0.5


class Features:
    """Follows the znode; on the controller, also decides the levels that no operator decided."""

    def __init__(
        self, coordination: Coordination, metadata: MetadataCache, broker_id: BrokerId
    ) -> None:
        self._coordination = coordination
        self._metadata = metadata
        self._broker_id = broker_id
        self._news = asyncio.Event()
        self._seen: frozenset[BrokerId] = frozenset()  # the brokers of the last decision
        self._task: asyncio.Task[None] | None = None
        self.finalized = FinalizedFeatures(enabled=False)
        # The version of the znode: it grows with each change.
        self.epoch = NO_NODE

    def transaction_version(self) -> int:
        """The finalized `transaction.version`; 0 if there is none."""
        return self.finalized.levels.get(TRANSACTION_VERSION, 0)

    async def start(self) -> None:
        """Read the znode and watch it, also in a new session."""
        await self._read()
        if self._task is None:
            self._task = asyncio.ensure_future(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def on_metadata(self) -> None:
        """The controller sent metadata; if it is this broker, other brokers may decide levels."""
        live = frozenset(self._metadata.brokers)
        if self._metadata.controller == self._broker_id and live != self._seen:
            self._seen = live
            self._news.set()

    async def update(
        self, name: str, level: int, allows_downgrade: bool, validate_only: bool
    ) -> None:
        """Change a level as an operator asks for.

        Raises  BrokerError, nothing changed
        """
        with coordinating():
            while True:
                await self._read()
                live = await self._registered()
                wanted = decide_update(self.finalized, name, level, allows_downgrade, live)
                if validate_only or await self._write(wanted):
                    return

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._read()
                if self._metadata.controller == self._broker_id:
                    await self._write_default()
            except SessionExpired:
                pass  # the next session calls `start` again
            except LawBroken:
                raise
            except BarnabasError as e:
                log.warning("features not read why=%s", e)
                await asyncio.sleep(RETRY_S)
                self._news.set()

    def _on_event(self, _: WatchEvent) -> None:
        self._news.set()

    async def _read(self) -> None:
        before = self.finalized
        try:
            data, stat = await self._coordination.get(paths.FEATURE, self._on_event)
            self.finalized, self.epoch = layout.decode_features(data), stat.version
        except NoNode:
            await self._coordination.exists(paths.FEATURE, self._on_event)
            self.finalized, self.epoch = FinalizedFeatures(enabled=False), NO_NODE
        except MalformedZnode as e:
            log.warning("ignoring unreadable features why=%s", e)
            self.finalized, self.epoch = FinalizedFeatures(), NO_NODE
        if self.finalized.levels != before.levels:
            levels = " ".join(f"{name}={level}" for name, level in self.finalized.levels.items())
            log.info("finalized features epoch=%d %s", self.epoch, levels or "none")

    async def _write_default(self) -> None:
        live = await self._registered()
        current = None if self.epoch == NO_NODE else self.finalized
        wanted = decide_default(current, live, self._assigned())
        if wanted is not None and not await self._write(wanted):
            self._news.set()

    def _assigned(self) -> frozenset[int]:
        return frozenset(
            replica
            for topic in self._metadata.topics()
            for partition in topic.partitions.values()
            for replica in partition.replicas
        )

    async def _registered(self) -> dict[int, dict[str, layout.VersionRange] | None]:
        """The features of each live broker."""
        found: dict[int, dict[str, layout.VersionRange] | None] = {}
        for name in await self._coordination.children(paths.BROKER_IDS):
            broker_id = BrokerId(int(name))
            try:
                data, _ = await self._coordination.get(paths.broker_path(broker_id))
            except NoNode:
                continue
            features = layout.decode_broker(broker_id, data).features
            found[broker_id] = None if features is None else dict(features)
        return found

    async def _write(self, wanted: FinalizedFeatures) -> bool:
        """True if nobody else wrote in between."""
        data = layout.encode_features(wanted)
        try:
            if self.epoch == NO_NODE:
                await self._coordination.create(paths.FEATURE, data)
            else:
                await self._coordination.set(paths.FEATURE, data, self.epoch)
        except (BadVersion, NodeExists, NoNode):
            return False
        await self._read()
        return True
