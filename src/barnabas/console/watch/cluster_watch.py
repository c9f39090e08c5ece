"""Events of the cluster, seen as differences between two looks: elections, ISR changes, brokers
that come and go, rebalances; and rates of topics."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.ids import TopicPartition
from barnabas.console.cluster.console_client import (
    LATEST,
    ClusterFailed,
    ClusterSnapshot,
    ConsoleClient,
)
from barnabas.console.cluster.groups import group_link
from barnabas.console.cluster.topic_index import (
    PartitionRow,
    TopicIndex,
    TopicIndexCache,
    read_partitions,
)
from barnabas.console.cluster.topics import leaders_of
from barnabas.console.watch.group_lags import GroupLags, LagSnapshot
from barnabas.console.watch.rebalances import decide_rebalances
from barnabas.console.watch.topic_rates import TopicRates

_LOOK_EVERY_S: Final = 2.0
_KEPT: Final = 400
_SAMPLES: Final = 300
_COUNTED_PARTITIONS: Final = 2_000
_FEW: Final = 3  # partitions of a topic whose events are named one by one
_FOLDED: Final = {
    "topic": "{} partitions of {} were added",
    "offline": "{} partitions of {} have no leader",
    "election": "{} partitions of {} are led by other brokers",
    "isr": "the ISRs of {} partitions of {} changed",
}
_SOME: Final = 6  # events of one kind in all topics that are named one by one
_ABSENT_LOOKS: Final = 10
_OF_MANY: Final = {
    "topic": "partitions were added",
    "offline": "partitions have no leader",
    "election": "partitions are led by other brokers",
    "isr": "ISRs changed",
}
_MANY: Final = 50  # events of one kind in one look that are named one by one


class ClusterEvent(NamedTuple):
    """One event, when it was seen, and a page about it."""

    at_ms: int
    kind: str
    what: str
    link: str = ""


class ThroughputSample(NamedTuple):
    """Messages a second in the whole cluster; None if it is not known."""

    at_ms: int
    messages: float | None


class ClusterWatch:
    """Looks at the cluster every two seconds while somebody has a page open."""

    def __init__(
        self, client: ConsoleClient, index: TopicIndexCache, lags: GroupLags, clock: Clock
    ) -> None:
        self._client = client
        self._index = index
        self._lags = lags
        self._clock = clock
        self.events: deque[ClusterEvent] = deque(maxlen=_KEPT)
        self.throughput: deque[ThroughputSample] = deque(maxlen=_SAMPLES)
        self._view: ClusterSnapshot | None = None
        self._topics: TopicIndex | None = None
        self._groups: LagSnapshot | None = None
        self._known: dict[str, int] = {}
        self._is_reached = True
        self._is_back = False
        self.rates = TopicRates()

    async def run(self) -> None:
        """Look until cancelled."""
        # Time has passed: groups may have changed often, and the chart has a gap. What became of
        # brokers and topics is said once.
        self._groups = None
        self._is_back = self._topics is not None
        if self.throughput:
            self.throughput.append(ThroughputSample(self._clock.now_ms(), None))
        while True:
            try:
                await self._look()
                if not self._is_reached:
                    self._add("reached", "the cluster answers again")
                self._is_reached = True
            except ClusterFailed as failure:
                if self._is_reached:
                    self._add("unreachable", str(failure))
                self._is_reached = False
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self) -> None:
        view = await self._client.view()
        index = await self._index.get()
        if self._view is not None:
            self._add_all(decide_broker_events(self._view, view))
        if self._topics is not None and index.at_s != self._topics.at_s:
            self._add_all(decide_topic_events(self._topics, index))
        self._view, self._topics, self._is_back = view, index, False
        self._look_at_groups(await self._lags.get())
        await self._measure(index)

    def _look_at_groups(self, snapshot: LagSnapshot) -> None:
        listed = {name: each.group for name, each in snapshot.groups.items()}
        if self._groups is not None:
            self._add_all(observe_groups(self._known, snapshot.groups))
            former = {name: each.group for name, each in self._groups.groups.items()}
            before, now = self._groups.members, snapshot.members
            self._add_all(decide_rebalances(former, listed, before, now))
        else:
            self._known = dict.fromkeys(snapshot.groups, 0)
        self._groups = snapshot

    async def _measure(self, index: TopicIndex) -> None:
        """Messages a second of all topics; not of a cluster with very many partitions."""
        if index.partitions > _COUNTED_PARTITIONS:
            return
        leaders = leaders_of(index.topics.values())
        rates = self.rates.observe(await self._client.offsets(leaders, leaders, LATEST))
        total = sum(rate for topic, rate in rates.items() if topic in index.topics)
        if rates or not leaders:
            self.throughput.append(ThroughputSample(self._clock.now_ms(), total))

    def _add(self, kind: str, what: str, link: str = "") -> None:
        self.events.appendleft(ClusterEvent(self._clock.now_ms(), kind, what, link))

    def _add_all(self, found: Iterable[tuple[str, str, str]]) -> None:
        for kind, what, link in found:
            self._add(kind, f"{what}, while nobody looked" if self._is_back else what, link)


Found = Iterator[tuple[str, str, str]]


def decide_broker_events(before: ClusterSnapshot, now: ClusterSnapshot) -> Found:
    for broker in now.ids:
        if broker not in before.ids:
            yield "broker", f"broker {broker} joined the cluster", f"cluster/brokers/{broker}"
    for broker in before.ids:
        if broker not in now.ids:
            yield "broker", f"broker {broker} left the cluster", "cluster"
    if before.controller != now.controller:
        who = f"broker {now.controller}" if now.controller >= 0 else "nobody"
        yield "controller", f"{who} is the controller now", "cluster"


def decide_topic_events(before: TopicIndex, now: TopicIndex) -> Found:
    """Topics created and deleted, leaders elected, ISRs changed."""
    for name in now.topics:
        if name not in before.topics:
            yield "topic", f"topic {name} was created", f"topics/{name}"
    for name in before.topics:
        if name not in now.topics:
            yield "topic", f"topic {name} was deleted", "topics"
    changed = [
        name
        for name, row in now.topics.items()
        if name in before.topics and before.topics[name].sent != row.sent
    ]
    events: list[tuple[str, str, str]] = []
    for name in changed[:_MANY]:
        former = {each.partition: each for each in read_partitions(before.topics[name])}
        found = [
            event
            for partition in read_partitions(now.topics[name])
            for event in _partition_events(name, former.get(partition.partition), partition)
        ]
        events += folded(name, found)
    yield from folded_topics(events)
    if len(changed) > _MANY:
        yield "election", f"{len(changed) - _MANY} more topics changed", "topics"


def folded(topic: str, found: list[tuple[str, str, str]]) -> Found:
    """Events of one topic; more than a few of one kind become one."""
    by_kind: dict[str, list[tuple[str, str, str]]] = {}
    for event in found:
        by_kind.setdefault(event[0], []).append(event)
    for kind, events in by_kind.items():
        if len(events) <= _FEW:
            yield from events
            continue
        yield kind, _FOLDED[kind].format(len(events), topic), f"topics/{topic}"


def folded_topics(found: list[tuple[str, str, str]]) -> Found:
    """Events of many topics, as when a broker comes back; more than some of one kind become one."""
    for kind in dict.fromkeys(event[0] for event in found):
        events = [event for event in found if event[0] == kind]
        if len(events) <= _SOME:
            yield from events
            continue
        topics = len({link for _, _, link in events})
        yield kind, f"{_OF_MANY[kind]} in {topics} topics", "topics?sort=health"


def _partition_events(topic: str, before: PartitionRow | None, now: PartitionRow) -> Found:
    at, link = TopicPartition(topic, now.partition), f"topics/{topic}"
    if before is None:
        yield "topic", f"{at} was added", link
        return
    if before.leader != now.leader:
        if now.leader < 0:
            yield "offline", f"{at} has no leader", link
        else:
            epoch = now.leader_epoch
            yield "election", f"{at} is led by broker {now.leader} in epoch {epoch}", link
    if sorted(before.isr) != sorted(now.isr):
        gone = [str(each) for each in before.isr if each not in now.isr]
        came = [str(each) for each in now.isr if each not in before.isr]
        words = [f"{', '.join(gone)} left"] if gone else []
        words += [f"{', '.join(came)} joined"] if came else []
        yield "isr", f"ISR of {at}: broker {'; '.join(words)}", link


def observe_groups(known: dict[str, int], now: Iterable[str]) -> Found:
    """Groups that came and went. `known` has in how many looks each has been absent.

    While a coordinator moves, nobody lists its groups: one is gone after several looks only.
    """
    listed = dict.fromkeys(now, 0)
    for name in listed:
        if name not in known:
            yield "group", f"group {name} appeared", group_link(name)
    for name in [name for name in known if name not in listed]:
        absent = known[name] + 1
        if absent < _ABSENT_LOOKS:
            listed[name] = absent
        else:
            yield "group", f"group {name} is gone", "groups"
    known.clear()
    known.update(listed)
