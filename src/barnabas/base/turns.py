"""Long loops in many turns of the event loop, so that others need not wait for their end."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

AT_ONCE: Final = 1000


async def in_turns(items: Iterable[T], at_once: int = AT_ONCE) -> AsyncIterator[T]:
    """Iterate over `items`; after each `at_once` of them other tasks run.

    `items` must not change meanwhile.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % at_once == 0:
            await asyncio.sleep(0)


class Turns:
    """The turns of one request, which may have loops in loops."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = AT_ONCE

    async def each(self, items: Iterable[T], weight: int = 1) -> AsyncIterator[T]:
        """Iterate over `items`; one of `weight` counts as so many. See `in_turns`."""
        for item in items:
            self._left -= weight
            if self._left < 0:
                self._left = AT_ONCE
                await asyncio.sleep(0)
            yield item

    async def listed(self, items: Iterable[T]) -> list[T]:
        """A list of `items`, which may be a generator: it does its work in turns. See `in_turns`.

        The cheaper form: without a turn's end it costs no more than one call.
        """
        found: list[T] = []
        rest = iter(items)
        while True:
            before = len(found)
            found.extend(islice(rest, self._left))
            self._left -= max(1, len(found) - before)
            if self._left > 0:
                return found
            self._left = AT_ONCE
            await asyncio.sleep(0)
