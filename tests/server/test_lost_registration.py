"""A broker whose session ended: what was meant for it before is refused, and it leads again."""

from pathlib import Path
from unittest.mock import patch

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.znodes.embedded import EmbeddedSession
from barnabas.znodes.tree import ConnectionLoss
from tests.server.raw import Insight, until, with_broker


async def no_answer(_: EmbeddedSession) -> None:
    raise ConnectionLoss("/")


def test_nothing_is_for_a_broker_between_two_registrations(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        broker = insight.running.broker
        session = vars(broker.topics)["_coordination"]
        assert isinstance(session, EmbeddedSession)
        before = insight.leader("t").epoch
        lost = broker.registration.epoch
        # The next registration waits, as it does for a ZooKeeper that is gone.
        with patch.object(EmbeddedSession, "renew", no_answer):
            await session.expire()
            await until(lambda: broker.replicas.find("t", 0) is None)
            for epoch in (lost, lost + 1, -1):
                with pytest.raises(BrokerError) as refused:
                    broker.registration.check_epoch(epoch)
                assert refused.value.code is ErrorCode.stale_broker_epoch
        await until(lambda: broker.registration.epoch > lost)
        with pytest.raises(BrokerError):
            broker.registration.check_epoch(lost)
        broker.registration.check_epoch(broker.registration.epoch)
        await until(lambda: broker.replicas.find("t", 0) is not None)
        assert insight.leader("t").epoch > before

    with_broker(tmp_path, scenario)
