"""Answers that stand in line, so that they leave in the order of their requests."""

from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.server.replies import Answer, Pending, Refusal
from barnabas.wire.fetch import Buffer

# So many stand in line at the most.
LONGEST_LINE: Final = 32


class Line:
    """Of one connection: answers that are not there yet, and such as stand behind them."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: deque[Pending | Answer | Refusal] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Pending | Answer | Refusal) -> None:
        self._entries.append(entry)

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be added: the last has to be answered first, or there are enough."""
        if not self._entries:
            return False
        last = self._entries[-1]
        is_open = last.next_may_begin if isinstance(last, Pending) else type(last) is not Refusal
        return not is_open or len(self._entries) >= LONGEST_LINE

    def take(self, out: list[Buffer], waited: Callable[[Pending], object]) -> Refusal | None:
        """Put the answers to `out` that nothing stands before; `waited` is told whose they were.

        Returns the refusal that they end with, if they do.
        """
        entries = self._entries
        while entries:
            first = entries[0]
            answer = first.given if isinstance(first, Pending) else first
            if answer is None:
                break
            entries.popleft()
            if isinstance(first, Pending):
                waited(first)
            if isinstance(answer, Refusal):
                return answer
            if isinstance(answer, bytes):
                out.append(answer)
            else:
                out += answer
        return None

    def abandon(self) -> None:
        """Nobody waits any more."""
        entries, self._entries = self._entries, deque()
        for each in entries:
            if isinstance(each, Pending):
                each.abandon()
