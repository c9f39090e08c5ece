"""A broker whose session ended: what was meant for it before is refused, and it leads again."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession
from barnabas.znodes.tree import ConnectionLoss, Stat, Watch
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
            for epoch in (lost - 1, lost, lost + 2, -1):
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


def test_a_new_registration_says_since_when_the_process_runs(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        registration = insight.running.broker.registration
        session = vars(insight.running.broker.topics)["_coordination"]
        first = registration.epoch

        async def first_epoch() -> int | None:
            data, _ = await session.get(paths.broker_path(BrokerId(0)))
            return layout.decode_broker(BrokerId(0), data).first_epoch

        async def registered_again() -> None:
            lost = registration.epoch
            await session.expire()
            await until(lambda: registration.epoch > lost)

        assert await first_epoch() is None
        await registered_again()
        assert await first_epoch() == first
        await registered_again()
        assert await first_epoch() == first

    with_broker(tmp_path, scenario)


def test_the_controller_may_speak_before_the_new_registration_is_read(tmp_path: Path) -> None:
    """It sees the node as soon as we do, and tells a broker of its replicas once."""

    async def scenario(insight: Insight) -> None:
        broker = insight.running.broker
        session = vars(broker.topics)["_coordination"]
        lost = broker.registration.epoch
        heard: list[int] = []
        read = EmbeddedSession.exists

        async def exists(
            self: EmbeddedSession, path: str, watch: Watch | None = None
        ) -> Stat | None:
            stat = await read(self, path, watch)
            if stat is not None and path == "/brokers/ids/0" and not heard:
                broker.registration.check_epoch(stat.czxid)
                with pytest.raises(BrokerError):
                    broker.registration.check_epoch(stat.czxid - 1)
                heard.append(stat.czxid)
            return stat

        with patch.object(EmbeddedSession, "exists", exists):
            await session.expire()
            await until(lambda: broker.registration.epoch > lost)
        assert heard == [broker.registration.epoch]

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("is_heard_of", [True, False])
def test_a_registration_that_was_lost_before_it_was_read_is_past(
    tmp_path: Path, is_heard_of: bool
) -> None:
    async def scenario(insight: Insight) -> None:
        broker = insight.running.broker
        session = vars(broker.topics)["_coordination"]
        unread: list[int] = []
        read = EmbeddedSession.exists

        async def exists(
            self: EmbeddedSession, path: str, watch: Watch | None = None
        ) -> Stat | None:
            stat = await read(self, path, watch)
            if stat is not None and path == "/brokers/ids/0":
                unread.append(stat.czxid)
                await asyncio.Event().wait()  # for an answer that does not come
            return stat

        def is_past() -> bool:
            try:
                broker.registration.check_epoch(unread[0])
            except BrokerError:
                return True
            return False

        with patch.object(EmbeddedSession, "exists", exists):
            await session.expire()
            await until(lambda: bool(unread))
            if is_heard_of:
                assert not is_past(), "the controller may speak to it"
            with patch.object(EmbeddedSession, "renew", no_answer):
                await session.expire()
                await until(is_past)
        await until(lambda: broker.registration.epoch > unread[0])

    with_broker(tmp_path, scenario)
