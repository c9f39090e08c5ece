"""The bounds of what a console serves at once: live pages, searches, attempts to sign in."""

import asyncio
import contextlib
import urllib.request
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette

from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ConsoleState
from barnabas.console.pages import sign_in_page
from barnabas.console.web import access
from barnabas.console.web.limits import Attempts, Crowded, Places
from tests.console.conftest import Visitor, running_console
from tests.console.test_web import NOBODY, OWN, ask, cookie_of, in_thread, served

Visit = Callable[..., Visitor]
EVENTS = "text/event-stream"


def test_a_place_is_free_again_however_it_was_left() -> None:
    places = Places(1, "searches")
    with contextlib.suppress(ZeroDivisionError), contextlib.ExitStack() as taken:
        taken.enter_context(places.taken())
        with pytest.raises(Crowded, match="1 searches are open"):
            taken.enter_context(places.taken())
        raise ZeroDivisionError
    with places.taken():
        assert places.free == 0
    assert places.free == 1


def test_attempts_of_one_address_are_made_one_after_the_other() -> None:
    async def run() -> None:
        attempts, entered = Attempts(), list[str]()
        both, leave = asyncio.Event(), asyncio.Event()

        async def attempt(address: str) -> None:
            async with attempts.turn(address):
                entered.append(address)
                if len(entered) == 2:
                    both.set()
                await leave.wait()

        same = [asyncio.ensure_future(attempt("2001:db8::1")) for _ in range(9)]
        neighbour = asyncio.ensure_future(attempt("2001:db8::2"))  # of the same machine
        other = asyncio.ensure_future(attempt("10.0.0.7"))
        await both.wait()
        assert entered == ["2001:db8::1", "10.0.0.7"]
        with pytest.raises(Crowded, match="try again"):
            await attempt("2001:db8::3")
        same[1].cancel()  # one that waited has gone away
        leave.set()
        await asyncio.gather(*same, neighbour, other, return_exceptions=True)
        assert len(entered) == 10
        await attempt("2001:db8::3")

    in_thread(run)


def test_attempts_of_very_many_addresses_are_bounded() -> None:
    async def run() -> None:
        attempts, leave = Attempts(), asyncio.Event()

        async def attempt(address: str) -> None:
            async with attempts.turn(address):
                await leave.wait()

        many = [asyncio.ensure_future(attempt(f"10.0.0.{number}")) for number in range(100)]
        await asyncio.sleep(0)
        with pytest.raises(Crowded):
            await attempt("10.0.1.1")
        leave.set()
        await asyncio.gather(*many)
        await attempt("10.0.1.1")

    in_thread(run)


def test_passwords_are_not_guessed_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    present: list[int] = [0]
    compared: list[int] = []
    is_same = access.is_same

    def counted(given: str, password: str) -> bool:
        compared.append(present[0])
        return is_same(given, password)

    async def pause(seconds: float) -> None:
        """The pause after a wrong password: nobody else is compared meanwhile."""
        present[0] += 1
        for _ in range(100):
            await asyncio.sleep(0)
        present[0] -= 1

    monkeypatch.setattr(sign_in_page, "is_same", counted)
    monkeypatch.setattr(sign_in_page, "asyncio", SimpleNamespace(sleep=pause))

    async def work(app: Starlette, _: ConsoleState) -> None:
        form = {"password": "guess"}
        tries = [ask(app, "POST", "/sign-in", OWN, form) for _ in range(30)]
        answers = await asyncio.gather(*tries)
        assert sorted(each.status for each in answers) == [403] * 10 + [429] * 20
        assert "Too many attempts" in next(e.text for e in answers if e.status == 429)
        assert compared == [0] * 10
        known = await ask(app, "POST", "/sign-in", OWN, {"password": "sesame"})
        assert known.status == 303

    served(ConsoleOptions(NOBODY, password="sesame"), work)


def closed(name: str, work: Callable[[Starlette, ConsoleState], Awaitable[Any]]) -> None:
    """The console without a free place of this kind."""

    async def run(app: Starlette, state: ConsoleState) -> None:
        setattr(state, name, Places(0, name.replace("_", " ")))
        await work(app, state)

    served(ConsoleOptions(NOBODY), run)


def test_a_live_page_beyond_the_last_place_is_busy() -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        known = {**cookie_of(await ask(app, "GET", "/simulation")), "accept": EVENTS}
        answer = await ask(app, "GET", "/topics", known)
        assert answer.text.startswith("event: busy\ndata: 0 live views are open at this console")

    closed("live_views", work)


@pytest.mark.parametrize(("name", "query"), [("searches", ""), ("filters", "?filter=value&text=x")])
def test_a_search_beyond_the_last_place_is_refused(name: str, query: str) -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        path = "/topics/orders/messages"
        found = await ask(app, "GET", f"{path}/stream{query}")
        assert f"event: failed\ndata: 0 {name} are open" in found.text
        refused = await ask(app, "GET", f"{path}/download{query}")
        assert (refused.status, f"0 {name} are open" in refused.text) == (502, True)

    closed(name, work)


@pytest.mark.long
def test_a_page_says_that_it_is_not_live_and_becomes_so(visit: Visit) -> None:
    with running_console(NOBODY) as console, contextlib.ExitStack() as others:
        for _ in range(100):
            request = urllib.request.Request(f"{console.url}topics", headers={"Accept": EVENTS})
            others.enter_context(urllib.request.urlopen(request, timeout=60))
        person = visit(at=console)
        page = person.open("topics", "Topics")
        page.get_by_text("not live: 100 live pages are open at this console").wait_for()
        person.check_all_looks()
        others.close()
        page.get_by_text("live", exact=True).wait_for(timeout=60_000)
