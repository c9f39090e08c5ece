"""Simulated tree sessions: the contract of Coordination, and ZooKeeper's failures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from barnabas.base.randomness import Random
from barnabas.sim.world.sim_loop import SimLoop
from barnabas.sim.world.sim_tree import Ensemble, SimSession
from barnabas.znodes.tree import (
    ConnectionLoss,
    Coordination,
    EventKind,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from tests.znodes.contract import CoordinationContract, Heard, OpenTree
from tests.znodes.contract_sessions import SessionContract

LONG_S, TIMEOUT_S = 60.0, 6.0
C, S, E = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


class EnsembleUnderTest:
    def __init__(self) -> None:
        self._ensemble = Ensemble(Random(1), LONG_S)
        self._hosts: dict[Coordination, str] = {}

    async def session(self) -> Coordination:
        host = f"host-{len(self._hosts)}"
        session = self._ensemble.session(host)
        self._hosts[session] = host
        return session

    async def expire(self, session: Coordination) -> None:
        heard = Heard[SessionState]()
        session.listen(heard)
        self._ensemble.expire(self._hosts[session])
        await heard.until(E)


@asynccontextmanager
async def opened() -> AsyncIterator[EnsembleUnderTest]:
    yield EnsembleUnderTest()


class TestInSimulation(CoordinationContract, SessionContract):
    @pytest.fixture
    def tree(self) -> OpenTree:
        return opened


class Two:
    """Two hosts with one session each; the first gets the faults."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.ensemble = Ensemble(Random(1), TIMEOUT_S)
        self.one, self.other = self._session("one"), self._session("other")
        self.states: list[SessionState] = []
        self.news: list[WatchEvent] = []
        self.one.listen(self.states.append)

    def _session(self, host: str) -> SimSession:
        return self.loop.boot(host).context.run(self.ensemble.session, host)

    async def on_one(self, work: Awaitable[object]) -> object:
        """Do something on the first host."""

        async def run() -> object:
            return await work

        return await self.loop.spawn(self.loop.host("one"), run())


Scenario = Callable[[Two], Awaitable[None]]


def simulated(scenario: Scenario) -> Callable[[], None]:
    def test() -> None:
        loop = SimLoop()

        async def run() -> None:
            await scenario(Two(loop))

        loop.run_until_complete(run())
        loop.close()

    return test


async def virtual(seconds: float) -> None:
    await asyncio.sleep(seconds)


@simulated
async def test_a_session_lives_as_long_as_its_host_and_no_longer_than_the_time_out(
    two: Two,
) -> None:
    await two.on_one(two.one.create("/one", ephemeral=True))
    await virtual(10 * TIMEOUT_S)
    assert await two.other.exists("/one") is not None
    two.loop.crash("one")
    await virtual(TIMEOUT_S / 2)
    assert await two.other.exists("/one") is not None
    await virtual(TIMEOUT_S)
    assert await two.other.exists("/one") is None
    assert two.states == []


@simulated
async def test_a_client_paused_past_its_timeout_learns_of_the_expiry_when_it_resumes(
    two: Two,
) -> None:
    await two.on_one(two.one.create("/one", ephemeral=True))
    two.loop.pause("one")
    await virtual(2 * TIMEOUT_S)
    assert await two.other.exists("/one") is None
    assert two.one.state is C
    two.loop.resume("one")
    await virtual(1)
    assert two.states[-1] is E
    await two.on_one(two.one.renew())
    assert two.one.state is C
    await two.on_one(two.one.create("/one", ephemeral=True))
    await virtual(3 * TIMEOUT_S)
    assert await two.other.exists("/one") is not None


@simulated
async def test_a_short_cut_suspends_the_session_and_events_follow_on_reconnect(two: Two) -> None:
    await two.on_one(two.one.create("/one", ephemeral=True))
    await two.on_one(two.one.get("/one", two.news.append))
    two.ensemble.cut("one")
    asking = asyncio.ensure_future(two.on_one(two.one.get("/one")))
    await two.other.set("/one", b"changed")
    await virtual(TIMEOUT_S * 0.9)
    assert two.states == [S]
    assert two.news == []
    with pytest.raises(ConnectionLoss):
        await asking
    with pytest.raises(ConnectionLoss):
        await two.on_one(two.one.exists("/one"))
    two.ensemble.heal("one")
    await virtual(0.1)
    assert two.states == [S, C]
    assert two.news == [WatchEvent(EventKind.CHANGED, "/one")]
    assert await two.on_one(two.one.exists("/one")) is not None


@simulated
async def test_a_client_cut_off_past_its_timeout_learns_of_the_expiry_on_reconnect(
    two: Two,
) -> None:
    await two.on_one(two.one.create("/one", ephemeral=True))
    two.ensemble.cut("one")
    await virtual(2 * TIMEOUT_S)
    assert await two.other.exists("/one") is None
    assert two.states == [S]
    two.ensemble.heal("one")
    await virtual(0.1)
    assert two.states == [S, E]
    with pytest.raises(SessionExpired):
        await two.on_one(two.one.get("/"))


@simulated
async def test_a_write_whose_answer_was_lost_may_or_may_not_have_happened(two: Two) -> None:
    happened = set()
    for number in range(40):
        path = f"/n{number}"
        asking = asyncio.ensure_future(two.on_one(two.one.create(path)))
        await virtual(0.001)
        two.ensemble.disconnect("one")
        try:
            await asking
        except ConnectionLoss:
            happened.add(await two.other.exists(path) is not None)
        await virtual(0.1)
        assert two.one.state is C
    assert happened == {True, False}


@simulated
async def test_sessions_outlive_an_ensemble_that_serves_nobody(two: Two) -> None:
    await two.on_one(two.one.create("/one", ephemeral=True))
    two.ensemble.stop()
    await virtual(5 * TIMEOUT_S)
    assert two.states == [S]
    two.ensemble.start()
    await virtual(TIMEOUT_S)
    assert two.states == [S, C]
    assert await two.other.exists("/one") is not None


@simulated
async def test_a_session_cannot_be_renewed_while_nobody_serves(two: Two) -> None:
    two.ensemble.expire("one")
    await virtual(0.1)
    two.ensemble.stop()
    with pytest.raises(ConnectionLoss):
        await two.on_one(two.one.renew())
    assert two.one.state is E
    two.ensemble.start()
    await two.on_one(two.one.renew())
    assert two.states == [E, C]


@simulated
async def test_the_next_life_of_a_host_has_a_session_of_its_own(two: Two) -> None:
    await two.on_one(two.one.create("/one", ephemeral=True))
    two.loop.crash("one")
    again = two.loop.boot("one").context.run(two.ensemble.session, "one")
    assert again.session_id != two.one.session_id
    await virtual(2 * TIMEOUT_S)
    assert again.state is C
    assert await two.other.exists("/one") is None
