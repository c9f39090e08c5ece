"""Mirrors to this cluster, by the topic in which `barnabas pipeline mirror` keeps their state.

The topic is read once, and then what is new in it, while somebody looks.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.base.offload import Offload
from barnabas.console.cluster.console_client import LATEST, ConsoleClient
from barnabas.console.cluster.topic_index import TopicIndex, TopicIndexCache, read_partitions
from barnabas.console.cluster.topics import leaders_of
from barnabas.console.messages.record_reader import ReadPlan, RecordReader
from barnabas.wire.records.records import Record

STATE_TOPIC: Final = "__barnabas_mirror"
_PARTITION: Final = 0


class MirroredTopic(NamedTuple):
    """A topic that a mirror copies, from which cluster, and to which topic of this one."""

    cluster_id: str
    source: str
    source_id: str
    target: str
    target_id: str


class MirrorRow(NamedTuple):
    """One mirrored topic; `copied` are offsets of the source, summed over its partitions.

    The lag is None if the source is in another cluster, or a leader does not answer.
    """

    topic: MirroredTopic
    copied: int
    lag: int | None


class Mirrors:
    """The mirrors' state as far as it has been read."""

    def __init__(self, client: ConsoleClient, index: TopicIndexCache, offload: Offload) -> None:
        self._client = client
        self._index = index
        self._offload = offload
        self._position = 0
        self._syncs: dict[tuple[MirroredTopic, int], set[int]] = {}

    async def get(self) -> list[MirrorRow]:
        """Raises ClusterFailed"""
        index = await self._index.get()
        if STATE_TOPIC not in index.topics:
            self._position, self._syncs = 0, {}
            return []
        await self._read(index)
        copied: dict[MirroredTopic, dict[int, int]] = {}
        for (topic, number), offsets in self._syncs.items():
            if offsets:
                copied.setdefault(topic, {})[number] = max(offsets)
        here = (await self._client.view()).cluster_id
        own = [each for each in copied if each.cluster_id == here and each.source in index.topics]
        leaders = leaders_of(index.topics[name] for name in dict.fromkeys(t.source for t in own))
        ends = await self._client.offsets(leaders, leaders, LATEST)
        return [
            MirrorRow(
                topic,
                sum(offsets.values()),
                _lag(topic, offsets, leaders, ends) if topic in own else None,
            )
            for topic, offsets in sorted(copied.items())
        ]

    async def _read(self, index: TopicIndex) -> None:
        at = TopicPartition(STATE_TOPIC, _PARTITION)
        leaders = {
            each.partition: each.leader for each in read_partitions(index.topics[STATE_TOPIC])
        }
        ends = await self._client.offsets([at], {at: leaders[_PARTITION]}, LATEST)
        end = ends.get(at, self._position)
        if end < self._position:  # it was deleted and made again
            self._position, self._syncs = 0, {}

        async def current() -> Mapping[int, int]:
            return leaders

        plan = ReadPlan(STATE_TOPIC, {_PARTITION: self._position}, {_PARTITION: end})
        reader = RecordReader(self._client, self._offload, plan, current)
        async for batch in reader.batches():
            for message in batch:
                self._on_read(message.record)
            if not batch:
                break  # its leader does not answer: the next look goes on here
        self._position = reader.positions.get(_PARTITION, end)

    def _on_read(self, record: Record) -> None:
        try:
            *names, partition, source = json.loads(record.key or b"")
            topic = MirroredTopic(*names)
            offset = int(source)
        except (ValueError, TypeError):
            return  # it is not a mirror's
        known = self._syncs.setdefault((topic, int(partition)), set())
        if record.value is None:
            known.discard(offset)
        else:
            known.add(offset)


def _lag(
    topic: MirroredTopic,
    copied: Mapping[int, int],
    leaders: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> int | None:
    wanted = [at for at in leaders if at.topic == topic.source]
    if any(at not in ends for at in wanted):
        return None
    return sum(max(0, ends[at] - copied.get(at.partition, 0)) for at in wanted)
