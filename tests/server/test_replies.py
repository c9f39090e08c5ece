"""Answers that come later: what their connection is told when there will be none."""

import asyncio
import logging

import pytest

from barnabas.server.replies import Answer, Pending, Refusal, Work
from barnabas.znodes.tree import ConnectionLoss, SessionExpired


@pytest.mark.parametrize("lost", [ConnectionLoss("/config/topics/t"), SessionExpired("/brokers")])
def test_a_request_that_needs_the_tree_ends_its_connection_while_there_is_none(
    lost: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is wrong with the broker, so its log has no traceback."""

    async def failing() -> Answer:
        raise lost

    async def scenario() -> None:
        work, pending, told = Work(lambda _: None), Pending(), list[Answer | Refusal]()
        pending.deliver_to(told.append)
        work.answer(pending, "api=LEADER_AND_ISR", failing())
        await work.finished()
        (refusal,) = told
        assert isinstance(refusal, Refusal)
        assert "coordination service does not answer" in refusal.why

    with caplog.at_level(logging.INFO, "barnabas"):
        asyncio.run(scenario())
    assert not any(record.exc_info for record in caplog.records)
