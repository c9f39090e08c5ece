"""The reply of a handler: a response now, a response later, or none at all."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from barnabas.base.errors import LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.laws import law
from barnabas.wire.fetch.fetch_codec import Buffer
from barnabas.znodes.tree import ConnectionLoss, SessionExpired

log = logging.getLogger("barnabas.requests")

# One frame, size first, in one buffer or several; empty if the client wants none (acks=0).
Answer = bytes | list[Buffer]


class Refusal(NamedTuple):
    """There is no answer: the connection is closed, as Kafka does, and the log says why."""

    why: str


class Pending:
    """An answer that will come later: given once, taken once, or abandoned by its connection.

    `next_may_begin`: all is done that the connection's next request could be in the way of.
    `is_read` is false while the frame of the request is still needed: then `read` must be called,
    and until then the connection leaves the frame its buffer.
    """

    __slots__ = (
        "_on_abandoned",
        "_receiver",
        "abandoned",
        "given",
        "is_read",
        "next_may_begin",
        "on_read",
        "since",
    )

    def __init__(
        self,
        on_abandoned: Callable[[], object] | None = None,
        *,
        next_may_begin: bool = False,
        is_read: bool = True,
    ) -> None:
        self.given: Answer | Refusal | None = None
        self._receiver: Callable[[Answer | Refusal], None] | None = None
        self._on_abandoned = on_abandoned
        self.next_may_begin = next_may_begin
        self.is_read = is_read
        self.on_read: Callable[[], object] | None = None
        self.since = 0  # when the wait began, for the connection's statistics
        self.abandoned = False

    def answer(self, answer: Answer | Refusal) -> None:
        """Give the answer, or say why there is none."""
        law(self.given is None, "SRV-1 a request is answered once")
        self.given = answer
        # The receiver refers to us, too. That cycle, with the memory of the log that is sent, would
        # live until the garbage collector runs, and requests would wait for that.
        receiver, self._receiver, self._on_abandoned = self._receiver, None, None
        if receiver is not None:
            receiver(answer)

    def deliver_to(self, receiver: Callable[[Answer | Refusal], None]) -> None:
        """Call `receiver` with the answer, now if it is there already."""
        if self.given is not None:
            receiver(self.given)
        else:
            self._receiver = receiver

    def stand_in(self) -> "Pending":
        """A reply that its connection gets in place of this one: abandoned and read like it."""
        other = Pending(self.abandon, next_may_begin=self.next_may_begin, is_read=self.is_read)
        self.on_read = other.read
        return other

    def read(self) -> None:
        """The frame is decoded, or not needed: its bytes may go."""
        on_read, self.on_read = self.on_read, None
        self.is_read = True
        if on_read is not None:
            on_read()

    def when_abandoned(self, do: Callable[[], object]) -> None:
        """Call this once the client is gone, in place of what was to be called; now if it is."""
        if self.abandoned:
            do()
        else:
            self._on_abandoned = do

    def abandon(self) -> None:
        """Cancel the work on the response: the client is gone."""
        self.abandoned = True
        on_abandoned, self._receiver, self._on_abandoned = self._on_abandoned, None, None
        if on_abandoned is not None:
            on_abandoned()


async def given(pending: Pending, instead_of: Pending | None = None) -> Answer | Refusal:
    """Await the answer of a pending reply.

    If the connection has another one `instead_of` it, both are abandoned together: the answer is
    empty then.
    """
    answer: asyncio.Future[Answer | Refusal] = asyncio.get_running_loop().create_future()

    def settle(given: Answer | Refusal) -> None:
        if not answer.done():
            answer.set_result(given)

    def abandon() -> None:
        pending.abandon()
        settle(b"")

    pending.deliver_to(settle)
    if instead_of is not None:
        instead_of.when_abandoned(abandon)
    return await answer


class Work:
    """The tasks behind pending answers, whether or not their clients still wait."""

    def __init__(self, failures: FailureChannel) -> None:
        self._failures = failures
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def answer(self, pending: Pending, what: str, making: Awaitable[Answer | Refusal]) -> Pending:
        """Give `pending` what `making` comes to; `what` names it in the log if it fails."""
        task = asyncio.ensure_future(self._answer(pending, what, making))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return pending

    async def _answer(
        self, pending: Pending, what: str, making: Awaitable[Answer | Refusal]
    ) -> None:
        answer: Answer | Refusal = Refusal("a bug in the broker")
        try:
            answer = await making
        except LawBroken as broken:
            self._failures.fatal(broken)
        except (ConnectionLoss, SessionExpired) as lost:
            # The client asks again on another connection; the tree may be back by then.
            answer = Refusal(f"the coordination service does not respond: {lost}")
        except Exception:
            log.exception("request failed %s", what)
        finally:
            if not pending.abandoned:
                pending.answer(answer)

    async def finished(self) -> None:
        """Return when no task is left."""
        while self._tasks:
            await asyncio.wait(self._tasks)


# None: the client asked for no answer (acks=0).
Reply = Answer | Pending | None
