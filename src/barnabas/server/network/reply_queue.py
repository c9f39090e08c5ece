"""Answers that stand in line, so that they leave in the order of their requests."""

from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.server.requests.replies import Answer, Pending, Refusal
from barnabas.wire.fetch.fetch_codec import Buffer

# So many stand in line at the most.
LONGEST_LINE: Final = 32


class Line(deque[Pending | Answer | Refusal]):
    """Of one connection: answers that are not there yet, and such as stand behind them."""

    __slots__ = ()

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be added: the last has to be answered first, or there are enough."""
        if not self:
            return False
        last = self[-1]
        is_open = last.next_may_begin if isinstance(last, Pending) else type(last) is not Refusal
        return not is_open or len(self) >= LONGEST_LINE

    def take(self, out: list[Buffer], waited: Callable[[Pending], object]) -> Refusal | None:
        """Put the answers to `out` that nothing stands before; `waited` is told whose they were.

        Returns the refusal that they end with, if they do.
        """
        while self:
            first = self[0]
            answer = first.given if isinstance(first, Pending) else first
            if answer is None:
                break
            self.popleft()
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
        waiting = [each for each in self if isinstance(each, Pending)]
        self.clear()
        for each in waiting:
            each.abandon()
