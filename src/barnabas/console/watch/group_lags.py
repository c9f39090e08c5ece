"""The lag of all groups: a snapshot for lists, and a ring of the last hours for charts.

The ring is filled while somebody looks at the console. Where nobody did, it has a gap, and the
chart shows one.
"""

import asyncio
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.ids import TopicPartition
from barnabas.console.cluster.console_client import ConsoleClient
from barnabas.console.cluster.groups import (
    ListedGroup,
    committed_offsets,
    end_offsets,
    list_groups,
)
from barnabas.console.cluster.topic_index import TopicIndexCache

_FRESH_S: Final = 1.5
SAMPLE_EVERY_MS: Final = 15_000
_KEPT: Final = 4 * 60 * 6  # six hours
_KEPT_OF_ALL: Final = 1_000_000  # samples: 24 MB
_FEWEST: Final = 20
_GAP_MS: Final = 3 * SAMPLE_EVERY_MS
_UNKNOWN: Final = -1


class GroupLag(NamedTuple):
    """A group, its lag in all partitions, and by topic."""

    group: ListedGroup
    lag: int | None
    by_topic: dict[str, int]
    partitions: int
    position: int
    """The sum of its committed offsets."""


class LagSnapshot(NamedTuple):
    """The lag of every group at one moment."""

    groups: dict[str, GroupLag]
    at_ms: int

    def of_topic(self, topic: str) -> list[tuple[str, int]]:
        """The groups that read a topic, with their lag in it; the largest first."""
        found = [
            (name, each.by_topic[topic])
            for name, each in self.groups.items()
            if topic in each.by_topic
        ]
        return sorted(found, key=lambda pair: -pair[1])


class LagSample(NamedTuple):
    at_ms: int
    lag: int | None
    position: int = 0


class LagRing:
    """The last samples of one group, in 24 bytes each."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def append(self, sample: LagSample, most: int) -> None:
        lag = _UNKNOWN if sample.lag is None else sample.lag
        self._numbers.extend((sample.at_ms, lag, sample.position))
        del self._numbers[: -3 * most]

    def last(self, count: int) -> list[LagSample]:
        """The newest samples, the oldest of them first."""
        numbers = self._numbers[-3 * count :]
        return [
            LagSample(at_ms, None if lag == _UNKNOWN else lag, position)
            for at_ms, lag, position in zip(*[iter(numbers)] * 3, strict=True)
        ]


class GroupLags:
    """The newest snapshot, and each group's ring of samples."""

    def __init__(self, client: ConsoleClient, index: TopicIndexCache, clock: Clock) -> None:
        self._client = client
        self._index = index
        self._clock = clock
        self._snapshot: LagSnapshot | None = None
        self._at_s = 0.0
        self._rings: dict[str, LagRing] = {}
        self._reading: asyncio.Task[LagSnapshot] | None = None

    def forget(self) -> None:
        self._snapshot = None

    async def get(self) -> LagSnapshot:
        """A snapshot that is a second old at most. Raises ClusterFailed."""
        age_s = asyncio.get_running_loop().time() - self._at_s
        if self._snapshot is not None and age_s < _FRESH_S:
            return self._snapshot
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._reading)

    async def _read(self) -> LagSnapshot:
        groups = await list_groups(self._client)
        index = await self._index.get()
        committed = await committed_offsets(self._client, groups)
        wanted = sorted({at for offsets in committed.values() for at in offsets})
        ends = await end_offsets(self._client, index, wanted)
        found = {each.name: _lag(each, committed.get(each.name, {}), ends) for each in groups}
        self._snapshot = LagSnapshot(found, self._clock.now_ms())
        self._at_s = asyncio.get_running_loop().time()
        self._sample(self._snapshot)
        return self._snapshot

    def _sample(self, snapshot: LagSnapshot) -> None:
        most = max(_FEWEST, min(_KEPT, _KEPT_OF_ALL // max(1, len(snapshot.groups))))
        for name, each in snapshot.groups.items():
            ring = self._rings.setdefault(name, LagRing())
            last = ring.last(1)
            if not last or snapshot.at_ms - last[0].at_ms >= SAMPLE_EVERY_MS:
                ring.append(LagSample(snapshot.at_ms, each.lag, each.position), most)
        for name in [name for name in self._rings if name not in snapshot.groups]:
            del self._rings[name]

    def rate(self, group: str) -> float | None:
        """Records a second that the group has committed between the last two samples."""
        last = self._ring(group).last(2)
        if len(last) < 2 or last[1].at_ms - last[0].at_ms > _GAP_MS:
            return None
        return max(0, last[1].position - last[0].position) / (last[1].at_ms - last[0].at_ms) * 1000

    def history(self, group: str) -> list[LagSample]:
        """The samples of a group; None as lag marks a gap during which nobody looked."""
        return with_gaps(self._ring(group).last(_KEPT))

    def _ring(self, group: str) -> LagRing:
        return self._rings.get(group) or LagRing()


def with_gaps(samples: Sequence[LagSample]) -> list[LagSample]:
    shown: list[LagSample] = []
    for sample in samples:
        if shown and sample.at_ms - shown[-1].at_ms > _GAP_MS:
            shown.append(LagSample(shown[-1].at_ms + SAMPLE_EVERY_MS, None))
        shown.append(sample)
    return shown


def _lag(
    group: ListedGroup, committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> GroupLag:
    by_topic: dict[str, int] = {}
    for at, offset in committed.items():
        if at in ends:
            by_topic[at.topic] = by_topic.get(at.topic, 0) + max(0, ends[at] - offset)
    total = sum(by_topic.values()) if by_topic else None
    return GroupLag(group, total, by_topic, len(committed), sum(committed.values()))
