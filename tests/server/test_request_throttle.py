"""The request quota of requests whose response comes later (S39)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.security.client_quotas import REQUEST, ClientQuotas, QuotaEntity, Window
from barnabas.server.requests.request_throttle import Throttle


class Watch:
    ns = 0

    def __call__(self) -> int:
        return self.ns


def throttle(watch: Watch) -> tuple[Throttle, Any]:
    quotas = ClientQuotas(Window(), Window())
    quotas.know(QuotaEntity("alice"), {REQUEST: 1.0})
    return Throttle(quotas, watch), quotas.of("alice", "app", 0)


def test_s39_the_waits_of_a_request_are_not_counted() -> None:
    async def scenario() -> None:
        watch = Watch()
        measured, meters = throttle(watch)
        client: Any = SimpleNamespace(now=lambda: 0.0, throttle=None)
        group: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def join() -> Any:
            watch.ns += 3_000
            await group
            watch.ns += 4_000
            with pytest.raises(KeyError):
                await _failing()
            return "joined"

        async def _failing() -> None:
            failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(failure.set_exception, KeyError())
            await failure

        began, watch.ns = watch.ns, watch.ns + 1_000
        response: Any = measured.on_response(join(), meters, began, client)
        waiting = asyncio.ensure_future(response)
        await asyncio.sleep(0)
        watch.ns += 60_000_000_000  # until the other members are there
        group.set_result(None)
        assert await waiting == "joined"
        assert meters.request.rate.total == pytest.approx(8_000 / 1e7)

    asyncio.run(scenario())


def test_a_request_that_is_cancelled_ends_as_ever() -> None:
    async def scenario() -> None:
        measured, meters = throttle(Watch())
        ended = []

        async def join() -> Any:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(True)

        client: Any = SimpleNamespace(now=lambda: 0.0, throttle=None)
        response: Any = measured.on_response(join(), meters, 0, client)
        waiting = asyncio.ensure_future(response)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended == [True]

    asyncio.run(scenario())
