"""A coroutine that begins at once needs a task only if it has to wait."""

import asyncio

import pytest

from barnabas.base.at_once import at_once


def test_a_coroutine_that_never_waits_is_done_at_once() -> None:
    async def making() -> int:
        return 5

    assert at_once(making()) == 5


def test_its_error_is_raised_at_once() -> None:
    async def making() -> int:
        raise ValueError("of the first part")

    with pytest.raises(ValueError, match="of the first part"):
        at_once(making())


def test_a_coroutine_that_waits_goes_on_in_whatever_awaits_the_rest() -> None:
    steps: list[str] = []

    async def making(first: "asyncio.Future[str]", second: "asyncio.Future[str]") -> str:
        steps.append("begun")
        steps.append(await first)
        steps.append(await second)
        return "done"

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[str] = loop.create_future()
        second: asyncio.Future[str] = loop.create_future()
        rest = at_once(making(first, second))
        assert steps == ["begun"]
        assert not isinstance(rest, str)
        task = asyncio.ensure_future(rest)
        first.set_result("first")
        loop.call_soon(second.set_result, "second")
        assert await task == "done"
        assert steps == ["begun", "first", "second"]

    asyncio.run(scenario())


def test_what_it_waits_for_may_be_there_before_anyone_awaits_the_rest() -> None:
    async def making(first: "asyncio.Future[int]") -> int:
        return await first + 1

    async def scenario() -> None:
        first: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        rest = at_once(making(first))
        first.set_result(1)
        assert not isinstance(rest, int)
        assert await rest == 2

    asyncio.run(scenario())


def test_it_hears_that_its_first_wait_failed() -> None:
    async def making(first: "asyncio.Future[int]") -> str:
        try:
            await first
        except ValueError as why:
            return str(why)
        return "nothing failed"

    async def scenario() -> None:
        first: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        rest = at_once(making(first))
        assert not isinstance(rest, str)
        task = asyncio.ensure_future(rest)
        await asyncio.sleep(0)
        first.set_exception(ValueError("it failed"))
        assert await task == "it failed"

    asyncio.run(scenario())


def test_it_hears_that_the_rest_is_cancelled() -> None:
    heard: list[str] = []

    async def making(first: "asyncio.Future[int]") -> None:
        try:
            await first
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def scenario() -> None:
        first: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        rest = at_once(making(first))
        assert rest is not None
        task = asyncio.ensure_future(rest)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert heard == ["cancelled"]
        assert first.cancelled()

    asyncio.run(scenario())
