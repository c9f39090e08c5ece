"""A Fetch of thousands of due partitions, in turns with the requests of others.

Theory of operation. Each turn of the loop has a part of the partitions. All that needs the state of
a partition happens in its turn: the follower's progress is noted, the replica is looked up with its
role and epoch, its records are located and taken from the page cache, and it rests if nothing is
new. Between turns anything may change. What was found before stands, as if the response had left
already; it is only ever sent. What the fetch reports is as old as the fetch: where the follower has
fetched again since, on another connection after a restart, it is not noted. A fetch that waits
looks at a partition in the turn in which it begins to listen to it, so no change is missed. Of
several such fetches one has a part in a turn, in the order in which they ask.
"""

import asyncio
from typing import Final

from barnabas.base.turns import AT_ONCE
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.server.fetching.fetch_collector import Fetched
from barnabas.server.fetching.fetch_responder import FetchCall, FetchResponder
from barnabas.server.requests.replies import Answer, Pending
from barnabas.wire.fetch.fetch_codec import Buffer

# A fetch of so many due partitions is answered in one turn, without a task.
MOST_IN_A_TURN: Final = 2 * AT_ONCE


def is_large(call: FetchCall) -> bool:
    return len(call.context.wanted) > MOST_IN_A_TURN


class LargeFetch:
    """One Fetch request; `begin` returns the reply, which a task makes."""

    def __init__(
        self,
        call: FetchCall,
        responder: FetchResponder,
        pending: Pending | None = None,
        waits_in: Purgatory[DelayedOperation] | None = None,
        *,
        is_follower: bool = False,
        arrived_ms: float | None = None,
    ) -> None:
        """`waits_in`: where it waits if there is not enough; None if it has waited before.

        `is_follower`: the progress that it reports is to be noted, as of when it arrived: now, if
        that is not said.
        """
        self._call = call
        self._responder = responder
        self._waits_in = waits_in if call.request.max_wait_ms > 0 else None
        self._is_follower = is_follower
        self._change = _Change()
        self._pending = Pending(self._change.changed.set) if pending is None else pending
        self._fetched = Fetched([])
        self._records: list[Buffer | None] = []
        self._arrived_ms = responder.now_ms() if arrived_ms is None else arrived_ms

    def begin(self) -> Pending:
        return self._responder.answer_later(self._pending, self._answer())

    async def _answer(self) -> Answer:
        await self._look()
        if self._waits_in is not None and not self._is_enough:
            await self._wait(self._waits_in)
        if self._is_over:
            self._fetched, self._records = Fetched([]), []
        buffers = await self._responder.load_cold(self._fetched, self._records)
        if self._pending.abandoned:
            return b""  # and no session is opened
        return await self._responder.respond_in_turns(self._call, self._fetched, buffers)

    @property
    def _is_enough(self) -> bool:
        return self._is_over or self._responder.is_enough(self._call, self._fetched)

    @property
    def _is_over(self) -> bool:
        """True if nobody waits for the response, or it will be an error."""
        return self._pending.abandoned or self._call.context.is_superseded

    async def _wait(self, purgatory: Purgatory[DelayedOperation]) -> None:
        """Look again after each change, until there is enough or the time is over."""
        context, change = self._call.context, self._change
        if context.repeated is not None:
            context.repeated.waiting = change
        purgatory.watch(change, context.keys(), context.wait_ms(self._call.request))
        try:
            while True:
                change.changed.clear()
                context.refresh()
                await self._look(purgatory)
                if change.completed or self._is_enough:
                    return
                await change.changed.wait()
        finally:
            purgatory.cancel(change)
            if context.repeated is not None and context.repeated.waiting is change:
                context.repeated.waiting = None

    async def _look(self, purgatory: Purgatory[DelayedOperation] | None = None) -> None:
        """Find what can be sent now; listen to partitions that may have more later."""
        self._fetched, self._records = Fetched([]), []
        for start in range(0, len(self._call.context.wanted), AT_ONCE):
            async with self._responder.turn:
                if self._is_over:
                    return
                self._look_at(start, purgatory)
                await asyncio.sleep(0)
        self._is_follower = False

    def _look_at(self, start: int, purgatory: Purgatory[DelayedOperation] | None) -> None:
        """The part of one turn; does not suspend."""
        call, wanted = self._call, self._call.context.wanted
        part = wanted[start : start + AT_ONCE]
        if self._is_follower:
            self._responder.note_follower(call, part, self._arrived_ms)
        behind = len(wanted) - start - len(part)
        self._records += self._responder.collect_part(call, self._fetched, part, behind)
        if purgatory is not None and call.context.repeated is not None:
            for each in part:
                each.listen(purgatory)


class _Change(DelayedOperation):
    """Wakes a large fetch: a partition changed, the time is over, or the client is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    def try_complete(self) -> bool:
        return False

    def on_event(self) -> bool:
        self.changed.set()
        return False

    def on_complete(self) -> None:
        self.changed.set()
