"""The lag of all groups: a snapshot for lists, and a ring of the last hours for charts.

The ring is filled while somebody looks at the console. Where nobody did, it has a gap, and the
chart shows one.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.ids import TopicPartition
from barnabas.base.offload import Offload
from barnabas.console.cluster.console_client import ConsoleClient
from barnabas.console.cluster.groups import (
    LeftOut,
    ListedGroup,
    ListedMember,
    LogEnds,
    committed_offsets,
    end_offsets,
    list_groups,
    owners_of,
    read_members,
)
from barnabas.console.cluster.topic_index import TopicIndexCache

_FRESH_S: Final = 1.5
_QUICK_S: Final = 0.1  # for which a page waits
_REST: Final = 10  # times as long as reading took, nothing is read
SAMPLE_EVERY_MS: Final = 15_000
_KEPT: Final = 4 * 60 * 6  # six hours
_KEPT_OF_ALL: Final = 1_000_000  # samples: 32 MB
_FEWEST: Final = 20
_GAP_MS: Final = 3 * SAMPLE_EVERY_MS
_UNKNOWN: Final = -1
_DESCRIBED_GROUPS: Final = 200  # whose members are read
Members = Mapping[str, Sequence[ListedMember]]


class Lag(NamedTuple):
    """How many messages a group is behind, and the partitions that this leaves out."""

    messages: int | None
    left_out: tuple[LeftOut, ...] = ()


class GroupLag(NamedTuple):
    """A group, its lag in all partitions that it has committed or owns, and by topic."""

    group: ListedGroup
    total: Lag
    by_topic: dict[str, Lag]
    position: int
    """The sum of its committed offsets."""
    members: int | None = None
    """How many members it has; None if that was not read."""
    why: str = ""
    """Why its committed offsets are not known; empty if they are."""


class LagSnapshot(NamedTuple):
    """The lag of every group at one moment."""

    groups: dict[str, GroupLag]
    at_ms: int
    missing: tuple[str, ...] = ()
    """Why groups of some coordinators are missing."""
    members: Members | None = None
    """The members of each group; None if there are too many groups to look at each."""

    @property
    def is_whole(self) -> bool:
        """True if all groups are listed, and their committed offsets are known."""
        return not self.missing and not any(each.why for each in self.groups.values())

    def by_topic(self) -> Counter[str]:
        """The lag of all groups in each topic."""
        found = Counter[str]()
        for each in self.groups.values():
            for topic, lag in each.by_topic.items():
                found[topic] += lag.messages or 0
        return found

    def of_topic(self, topic: str) -> list[tuple[str, Lag]]:
        """The groups that read a topic, with their lag in it; the largest first."""
        found = [
            (name, each.by_topic[topic])
            for name, each in self.groups.items()
            if topic in each.by_topic
        ]
        return sorted(found, key=lambda pair: -(pair[1].messages or 0))


class LagSample(NamedTuple):
    """The lag at one moment; it leaves out a number of partitions."""

    at_ms: int
    lag: int | None
    position: int = 0
    left_out: int = 0


class LagRing:
    """The last samples of one group, in 32 bytes each."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def append(self, sample: LagSample, most: int) -> None:
        lag = _UNKNOWN if sample.lag is None else sample.lag
        self._numbers.extend((sample.at_ms, lag, sample.position, sample.left_out))
        del self._numbers[: -4 * most]

    def last(self, count: int) -> list[LagSample]:
        """The newest samples, the oldest of them first."""
        numbers = self._numbers[-4 * count :]
        return [
            LagSample(at_ms, None if lag == _UNKNOWN else lag, position, left_out)
            for at_ms, lag, position, left_out in zip(*[iter(numbers)] * 4, strict=True)
        ]


class GroupLags:
    """The newest snapshot, and each group's ring of samples."""

    def __init__(
        self, client: ConsoleClient, index: TopicIndexCache, offload: Offload, clock: Clock
    ) -> None:
        self._client = client
        self._index = index
        self._offload = offload
        self._clock = clock
        self._snapshot: LagSnapshot | None = None
        self._at_s = 0.0
        self._took_s = 0.0
        self._rings: dict[str, LagRing] = {}
        self._reading: asyncio.Task[LagSnapshot] | None = None
        self._failure: BaseException | None = None

    def forget(self) -> None:
        """After a change: the next page waits for the groups that are there now."""
        self._snapshot = None

    async def get(self) -> LagSnapshot:
        """A snapshot that is a second old at most, unless reading takes long. Raises ClusterFailed.

        Of very many offsets it is the one before, while a new one is read in the background; at
        first it has the groups without their lag.
        """
        age_s = asyncio.get_running_loop().time() - self._at_s
        if self._snapshot is not None and age_s < max(_FRESH_S, _REST * self._took_s):
            return self._snapshot
        reading = self._start()
        await asyncio.wait({reading}, timeout=_QUICK_S)
        while self._snapshot is None and not reading.done():
            await asyncio.wait({reading}, timeout=_QUICK_S)
        if reading.done() or self._snapshot is None:
            return await asyncio.shield(reading)
        if self._failure is not None:
            raise self._failure
        return self._snapshot

    async def whole(self) -> LagSnapshot:
        """A new snapshot with all lags, however long it takes. Raises ClusterFailed."""
        return await asyncio.shield(self._start())

    def _start(self) -> "asyncio.Task[LagSnapshot]":
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(self._on_read)
        return self._reading

    def _on_read(self, reading: "asyncio.Task[LagSnapshot]") -> None:
        """A failure in the background is one of the next page: the snapshot is too old for it."""
        self._failure = None if reading.cancelled() else reading.exception()

    async def _read(self) -> LagSnapshot:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        groups, missing = await list_groups(self._client)
        why = tuple(missing.values())
        if self._snapshot is None:
            unread = {each.name: unread_lag(each, "being read") for each in groups}
            self._snapshot = LagSnapshot(unread, self._clock.now_ms(), why)
        index = await self._index.get()
        alive = [each for each in groups if each.has_members]
        is_few = len(alive) <= _DESCRIBED_GROUPS
        members = await read_members(self._client, alive) if is_few else None
        committed = await committed_offsets(self._client, groups)
        ends = await end_offsets(
            self._client,
            index,
            (at for offsets in committed.values() for at in offsets),
            (
                at
                for name, each in (members or {}).items()
                for at in owners_of(each)
                if at not in committed.get(name, {})
            ),
        )

        def lag_of(each: ListedGroup) -> GroupLag:
            known = None if members is None else members.get(each.name)
            found = known if each.has_members else ()
            return decide_lag(each, committed.get(each.name), ends, found)

        found = await self._offload(lambda: {each.name: lag_of(each) for each in groups})
        self._snapshot = LagSnapshot(found, self._clock.now_ms(), why, members)
        self._at_s = loop.time()
        self._took_s = self._at_s - began_s
        self._sample(self._snapshot)
        return self._snapshot

    def _sample(self, snapshot: LagSnapshot) -> None:
        known = {name: each for name, each in snapshot.groups.items() if not each.why}
        most = max(_FEWEST, min(_KEPT, _KEPT_OF_ALL // max(1, len(self._rings | known))))
        for name, each in known.items():
            ring = self._rings.setdefault(name, LagRing())
            last = ring.last(1)
            if not last or snapshot.at_ms - last[0].at_ms >= SAMPLE_EVERY_MS:
                lag, left_out = each.total
                sample = LagSample(snapshot.at_ms, lag, each.position, len(left_out))
                ring.append(sample, most)
        # A group is not listed while its coordinator moves: its samples stay as long as all do.
        since_ms = snapshot.at_ms - _KEPT * SAMPLE_EVERY_MS
        for name in [name for name, ring in self._rings.items() if ring.last(1)[0][0] < since_ms]:
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


def unread_lag(group: ListedGroup, why: str) -> GroupLag:
    """A group whose lag is not known."""
    return GroupLag(group, Lag(None), {}, 0, why=why)


def decide_lag(
    group: ListedGroup,
    committed: dict[TopicPartition, int] | None,
    ends: LogEnds,
    members: Sequence[ListedMember] | None = None,
) -> GroupLag:
    """The lag of a group with these committed offsets; None if its coordinator reports none.

    Partitions count that members own, too: where nothing is committed, an empty log has no lag.
    """
    if committed is None:
        return unread_lag(group, "its coordinator does not answer")
    behind: dict[str, int] = {}
    left_out: dict[str, list[LeftOut]] = {}
    for at in {**committed, **dict.fromkeys(owners_of(members or ()))}:
        if why := ends.why_no_lag(at, committed):
            left_out.setdefault(at.topic, []).append(LeftOut(at, why))
        else:
            end = ends.known[at]
            behind[at.topic] = behind.get(at.topic, 0) + max(0, end - committed.get(at, end))
    by_topic = {
        topic: Lag(behind.get(topic), tuple(left_out.get(topic, ())))
        for topic in sorted({**behind, **left_out})
    }
    total = Lag(
        sum(behind.values()) if behind else None,
        tuple(each for lag in by_topic.values() for each in lag.left_out),
    )
    count = None if members is None else len(members)
    return GroupLag(group, total, by_topic, sum(committed.values()), count)
