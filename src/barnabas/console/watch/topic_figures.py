"""Sizes and rates of the topics of a list, also of topics with thousands of partitions.

Of a page of ordinary topics all brokers are asked at once. Larger topics are read one by one in the
background, and shown when they are: to ask for 50,000 partitions takes brokers seconds.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.base.offload import Offload
from barnabas.console.cluster.console_client import LATEST, ClusterFailed, ConsoleClient
from barnabas.console.cluster.topic_index import TopicRow
from barnabas.console.cluster.topics import leaders_of, read_sizes, replicas_of
from barnabas.console.watch.topic_rates import TopicRates

_AT_ONCE: Final = 1_000  # partitions of one page that it waits for
_STALE_S: Final = 10.0
_REST: Final = 10  # times as long as a topic took to read, it is not read again
_KEPT: Final = 1_000


class Figures(NamedTuple):
    """The size of a topic on all brokers, and messages a second; None if not known."""

    size: int | None = None
    rate: float | None = None


class TopicFigures:
    """The newest figures of topics; brokers are asked while somebody looks at them."""

    def __init__(self, client: ConsoleClient, rates: TopicRates, offload: Offload) -> None:
        self._client = client
        self._rates = rates
        self._offload = offload
        # Of large topics: the figures, and from when on they are read again.
        self._known: dict[str, tuple[Figures, float]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def get(self, rows: Sequence[TopicRow]) -> dict[str, Figures]:
        """The figures of these topics, as far as they are known. Raises ClusterFailed."""
        small: list[TopicRow] = []
        large: list[TopicRow] = []
        room = _AT_ONCE
        for row in sorted(rows, key=lambda row: row.partitions):
            room -= row.partitions
            (small if room >= 0 else large).append(row)
        self._read_later(large)
        found = await self._read(small) if small else {}
        return found | {row.name: self._known.get(row.name, _UNREAD)[0] for row in large}

    def _read_later(self, rows: Sequence[TopicRow]) -> None:
        now_s = asyncio.get_running_loop().time()
        stale = [row for row in rows if now_s >= self._known.get(row.name, _UNREAD)[1]]
        if stale and (self._reading is None or self._reading.done()):
            self._reading = asyncio.ensure_future(self._read_all(stale))

    async def _read_all(self, rows: Sequence[TopicRow]) -> None:
        loop = asyncio.get_running_loop()
        for row in rows:
            began_s = loop.time()
            try:
                figures = (await self._read([row]))[row.name]
            except ClusterFailed:
                figures = Figures()
            rest_s = max(_STALE_S, _REST * (loop.time() - began_s))
            self._known.pop(row.name, None)
            self._known[row.name] = figures, loop.time() + rest_s
            while len(self._known) > _KEPT:
                self._known.pop(next(iter(self._known)))

    async def _read(self, rows: Sequence[TopicRow]) -> dict[str, Figures]:
        leaders, replicas = await self._offload(lambda: (leaders_of(rows), replicas_of(rows)))
        ends = await self._client.offsets(leaders, leaders, LATEST)
        sizes = (await read_sizes(self._client, replicas)).by_topic()
        rates = self._rates.observe(ends)
        return {row.name: Figures(sizes.get(row.name), rates.get(row.name)) for row in rows}


_UNREAD: Final = (Figures(), float("-inf"))
