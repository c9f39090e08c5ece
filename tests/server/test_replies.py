"""Answers that come later: what their connection gets when there will be none."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Iterator

import pytest

from barnabas.server.requests.replies import Answer, Pending, Refusal, Work
from barnabas.znodes.tree import ConnectionLoss, SessionExpired
from tests.support.recorded_failures import RecordedFailures


@pytest.mark.parametrize("lost", [ConnectionLoss("/config/topics/t"), SessionExpired("/brokers")])
def test_a_request_that_needs_the_tree_ends_its_connection_while_there_is_none(
    lost: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is wrong with the broker, so its log has no traceback."""

    async def failing() -> Answer:
        raise lost

    async def scenario() -> None:
        work, pending, told = Work(RecordedFailures()), Pending(), list[Answer | Refusal]()
        pending.deliver_to(told.append)
        work.answer(pending, "api=LEADER_AND_ISR", failing())
        await work.finished()
        (refusal,) = told
        assert isinstance(refusal, Refusal)
        assert "coordination service does not respond" in refusal.why

    with caplog.at_level(logging.INFO, "barnabas"):
        asyncio.run(scenario())
    assert not any(record.exc_info for record in caplog.records)


class Waiting:
    """A request as handlers have it: it knows the answer to come, and learns if nobody waits."""

    def __init__(self) -> None:
        self.told: list[Answer | Refusal] = []
        self.cancelled = False
        self.pending = Pending(on_abandoned=self.cancel)
        self.pending.deliver_to(self.receive)

    def cancel(self) -> None:
        self.cancelled = True

    def receive(self, answer: Answer | Refusal) -> None:
        self.told.append(answer)


@pytest.fixture
def nothing_collected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("nothing_collected")
@pytest.mark.parametrize(
    "ended",
    [lambda pending: pending.answer(b"here"), lambda pending: pending.abandon()],
    ids=["answered", "abandoned"],
)
def test_a_request_that_is_over_is_gone_at_once_without_the_collector(
    ended: Callable[[Pending], None],
) -> None:
    waiting = Waiting()
    seen = weakref.ref(waiting)
    ended(waiting.pending)
    assert waiting.told == [b"here"] or waiting.cancelled
    del waiting
    assert seen() is None


def test_work_on_a_sent_response_is_not_cancelled_by_a_disconnect() -> None:
    waiting = Waiting()
    waiting.pending.answer(b"here")
    waiting.pending.abandon()
    assert (waiting.told, waiting.cancelled) == ([b"here"], False)


def test_a_reply_in_place_of_another_is_read_and_abandoned_like_it() -> None:
    abandoned: list[str] = []
    reply = Pending(lambda: abandoned.append("reply"), is_read=False)
    stand_in = reply.stand_in()
    read: list[bool] = []
    stand_in.on_read = lambda: read.append(stand_in.is_read)
    assert not stand_in.is_read
    reply.read()
    reply.read()
    assert read == [True]
    stand_in.abandon()
    assert abandoned == ["reply"]
