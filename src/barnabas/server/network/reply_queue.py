"""The responses of one connection that are waited for, in the order of their requests."""

from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.server.requests.replies import Answer, Pending, Refusal
from barnabas.wire.fetch.fetch_codec import Buffer

# So many are queued at the most.
MOST_QUEUED: Final = 32


class ReplyQueue(deque[Pending | Answer | Refusal]):
    """Responses that are not there yet, and responses behind them."""

    __slots__ = ()

    @property
    def is_closed(self) -> bool:
        """True if no request may begin: the last has to be answered first, or there are enough."""
        if not self:
            return False
        last = self[-1]
        is_open = last.next_may_begin if isinstance(last, Pending) else type(last) is not Refusal
        return not is_open or len(self) >= MOST_QUEUED

    def take(self, out: list[Buffer], waited: Callable[[Pending], object]) -> Refusal | None:
        """Move the responses at the head to `out`, and call `waited` for each that was pending.

        Returns the refusal that they end with, if any.
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
        """The client disconnected."""
        waiting = [each for each in self if isinstance(each, Pending)]
        self.clear()
        for each in waiting:
            each.abandon()
