"""One search of a topic's messages: what it reads and keeps, and where the next one goes on."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from barnabas.base.offload import Offload
from barnabas.console.cluster.console_client import ClusterFailed, ConsoleClient
from barnabas.console.cluster.groups import LeftOut, why_unknown
from barnabas.console.messages.filter_process import FilterProcess
from barnabas.console.messages.message_view import for_filter
from barnabas.console.messages.record_reader import (
    Leaders,
    ReadMessage,
    ReadPlan,
    RecordReader,
    UnreadableBatch,
    plan_reading,
)
from barnabas.console.messages.schema_registry import SchemaRegistry

MOST_SCANNED: Final = 2_000_000


class Wanted(NamedTuple):
    """The wish of a person: `where` and `value` as for a plan, the filter, the number.

    `after` has the offsets, by partition, where the search before ended.
    """

    where: str
    value: int
    filter: str
    text: str
    limit: int
    after: Mapping[int, int]


class Part(NamedTuple):
    """Messages that match, and how many were read for them.

    `unreadable` are batches and `left_out` partitions that cannot be read. `rest` has the offsets
    where a search for more begins; None if this search goes on, or has read all.
    """

    messages: list[ReadMessage]
    looked_at: int = 0
    unreadable: Sequence[UnreadableBatch] = ()
    # Why some partitions could not be read just now.
    trouble: str = ""
    left_out: Sequence[LeftOut] = ()
    rest: Mapping[int, int] | None = None


class _Fetched(NamedTuple):
    """Messages that match, and the offsets up to which all partitions are read."""

    part: Part
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MessageSearch:
    """A search of one topic, which a page carries out once."""

    client: ConsoleClient
    offload: Offload
    registry: SchemaRegistry | None
    topic: str
    leaders: Leaders
    wanted: Wanted

    async def parts(self) -> AsyncIterator[Part]:
        """The messages in the order of the page. Raises ClusterFailed, WrongFilter, FilterStopped.

        Nothing goes on in another process once the caller has closed it.
        """
        wanted = self.wanted
        leaders = await self.leaders()
        plan = await plan_reading(self.client, self.topic, leaders, wanted.where, wanted.value)
        partitions = plan.partitions_of(leaders)
        left_out = [
            LeftOut(at, why_unknown(at, partitions))
            for at in partitions
            if at.partition not in plan.starts
        ]
        if left_out and not plan.starts:
            raise ClusterFailed(f"{left_out[0].partition} cannot be read: {left_out[0].why}")
        if left_out:
            yield Part([], left_out=left_out)
        process = await FilterProcess.start(wanted.filter, wanted.text) if wanted.filter else None
        try:
            ways = {"newest": self._newest, "live": self._live}
            way = ways.get(wanted.where, self._oldest)
            async for part in way(plan.going_on(wanted.where, wanted.after), process):
                yield part
        finally:
            if process is not None:
                await process.close()

    async def _fetched(
        self, plan: ReadPlan, process: FilterProcess | None
    ) -> AsyncIterator[_Fetched]:
        reader = RecordReader(self.client, self.offload, plan, self.leaders)
        async for batch in reader.batches():
            kept = batch
            if process is not None and batch:
                given = await self.offload(partial(self._for_filter, batch))
                kept = [batch[n] for n in await process.keep(given)]
            part = Part(kept, len(batch), reader.take_unreadable(), reader.trouble)
            yield _Fetched(part, dict(reader.positions))

    def _for_filter(self, messages: list[ReadMessage]) -> bytes:
        return json.dumps([for_filter(each, self.registry) for each in messages]).encode()

    async def _live(self, plan: ReadPlan, process: FilterProcess | None) -> AsyncIterator[Part]:
        async for part, _ in self._fetched(plan, process):
            yield part

    async def _oldest(self, plan: ReadPlan, process: FilterProcess | None) -> AsyncIterator[Part]:
        room, scanned = self.wanted.limit, 0
        async for part, positions in self._fetched(plan, process):
            shown, later = part.messages[:room], part.messages[room:]
            room, scanned = room - len(shown), scanned + part.looked_at
            if room > 0 and scanned < MOST_SCANNED:
                yield part
                continue
            # A partition that cannot be read any further has no position.
            rest = {number: positions.get(number, end) for number, end in plan.ends.items()}
            for each in later:
                rest[each.partition] = min(rest[each.partition], each.record.offset)
            is_more = any(rest[number] < plan.ends[number] for number in rest)
            yield part._replace(messages=shown, rest=rest if is_more else None)
            return

    async def _newest(self, plan: ReadPlan, process: FilterProcess | None) -> AsyncIterator[Part]:
        """The newest first. A log is read forward only: so part by part, from its end."""
        room, scanned = self.wanted.limit, 0
        for window in plan.windows(self.wanted.limit, is_filtered=bool(self.wanted.filter)):
            newest: list[ReadMessage] = []
            rest = dict(window.starts)
            async for part, _ in self._fetched(window, process):
                found = sorted([*newest, *part.messages], key=_newest_first)
                newest = found[:room]
                for each in found[room:]:
                    rest[each.partition] = max(rest[each.partition], each.record.offset + 1)
                scanned += part.looked_at
                yield part._replace(messages=[])
            room -= len(newest)
            is_last = room <= 0 or scanned >= MOST_SCANNED
            is_more = is_last and any(rest[number] > plan.starts[number] for number in rest)
            yield Part(newest, rest=rest if is_more else None)
            if is_last:
                return


def _newest_first(message: ReadMessage) -> tuple[int, int, int]:
    return -message.record.timestamp, message.partition, -message.record.offset
