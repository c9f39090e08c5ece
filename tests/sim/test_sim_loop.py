"""The simulated event loop: virtual time, and hosts that crash, pause and resume."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from barnabas.sim.world.sim_loop import HOST, SimLoop


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    yield loop
    loop.close()


def test_an_hour_of_virtual_time_passes_at_once(loop: SimLoop) -> None:
    began = loop.time()
    loop.run_until_complete(asyncio.sleep(3600))
    assert 3600 <= loop.time() - began < 3600.001
    assert loop.steps < 10


def test_timers_of_one_instant_run_in_the_order_they_were_set(loop: SimLoop) -> None:
    ran: list[int] = []
    for number in range(200):
        loop.call_at(loop.time() + 1, ran.append, number)
    loop.run_until_complete(asyncio.sleep(2))
    assert ran == list(range(200))


def test_tasks_that_only_yield_do_not_stop_time(loop: SimLoop) -> None:
    def spin() -> None:
        if not later.done():
            loop.call_soon(spin)

    later = loop.create_task(asyncio.sleep(0.001))
    spin()
    loop.run_until_complete(later)


def test_tasks_and_callbacks_belong_to_the_host_that_made_them(loop: SimLoop) -> None:
    seen: list[str] = []

    def note() -> None:
        seen.append(str(HOST.get()))

    async def work() -> None:
        note()
        asyncio.get_running_loop().call_later(1, note)
        await asyncio.create_task(asyncio.sleep(2))
        note()

    loop.run_until_complete(loop.spawn(loop.boot("broker-7"), work()))
    loop.run_until_complete(asyncio.sleep(0))
    note()
    assert seen == ["broker-7", "broker-7", "broker-7", "None"]


def test_an_unobserved_failure_is_reported_even_after_another_host_crashed(
    loop: SimLoop,
) -> None:
    told: list[str] = []
    loop.set_exception_handler(lambda _, context: told.append(repr(context["exception"])))
    lives = loop.boot("lives")

    async def fail() -> None:
        await asyncio.sleep(2)
        raise ValueError("a bug")

    async def work() -> None:
        loop.call_soon(asyncio.create_task, fail())
        await asyncio.sleep(3)

    loop.boot("dies")
    loop.call_later(1, loop.crash, "dies")
    loop.run_until_complete(loop.spawn(lives, work()))
    gc.collect()
    assert told == ["ValueError('a bug')"]


def test_nothing_of_a_crashed_host_runs_again_not_even_its_cleanup(loop: SimLoop) -> None:
    ran: list[str] = []

    async def work(name: str) -> None:
        try:
            for _ in range(5):
                await asyncio.sleep(1)
                ran.append(name)
        finally:
            ran.append(f"{name} ends")

    loop.spawn(loop.boot("dies"), work("dies"))
    lives = loop.spawn(loop.boot("lives"), work("lives"))
    loop.call_later(2.5, loop.crash, "dies")
    loop.run_until_complete(lives)
    loop.run_until_complete(asyncio.sleep(10))
    assert ran == ["dies", "lives"] * 2 + ["lives"] * 3 + ["lives ends"]
    host = loop.host("dies")
    assert host is not None
    assert host.is_dead
    loop.spawn(loop.boot("dies"), work("again"))
    loop.run_until_complete(asyncio.sleep(1.5))
    assert ran[-1] == "again"


def test_tasks_started_while_the_loop_closes_are_dropped() -> None:
    loop = SimLoop()
    begun: list[asyncio.Task[None]] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            begun.append(asyncio.ensure_future(asyncio.sleep(1)))
            await asyncio.wait(begun)

    loop.create_task(work())
    loop.run_until_complete(asyncio.sleep(1))
    loop.close()
    assert [task.get_loop() for task in begun] == [loop]
    begun.clear()
    gc.collect()  # an end that is not silent fails the test


def test_a_resumed_host_runs_everything_due_in_order(loop: SimLoop) -> None:
    ran: list[int] = []

    async def count() -> None:
        for number in range(4):
            asyncio.get_running_loop().call_later(number + 1, ran.append, number)
        await asyncio.sleep(3)
        ran.append(99)

    loop.spawn(loop.boot("slow"), count())
    loop.run_until_complete(asyncio.sleep(1.5))
    loop.pause("slow")
    loop.run_until_complete(asyncio.sleep(10))
    assert ran == [0]
    loop.resume("slow")
    loop.run_until_complete(asyncio.sleep(0.1))
    assert ran == [0, 1, 2, 3, 99]


def test_an_uncaught_exception_is_reported_with_its_host(loop: SimLoop) -> None:
    told: list[tuple[str, str]] = []

    def note(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        told.append((str(loop.running_host), str(context["exception"])))

    def fail() -> None:
        raise ValueError("a bug")

    loop.set_exception_handler(note)
    loop.call_soon(fail, context=loop.boot("broker-0").context)
    loop.run_until_complete(asyncio.sleep(1))
    assert told == [("broker-0", "a bug")]
