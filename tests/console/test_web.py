"""The console's web side without a browser: every route by its application, in this process."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from barnabas.console.console_app import build_app, routes
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ClusterHandle, ConsoleState
from barnabas.console.web.actions import Form, Plan, action
from barnabas.console.web.page import Page

NOBODY = "127.0.0.1:1"
OWN = {"host": "127.0.0.1:8080"}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str


async def ask(
    app: Starlette,
    method: str,
    url: str,
    headers: Mapping[str, str] = OWN,
    form: Mapping[str, str] | None = None,
    raises: tuple[type[Exception], ...] = (),
    body: bytes = b"",
    *,
    leaves: bool = False,
) -> Answer:
    """The application's answer, as a server passes it on; a browser that `leaves` does not wait."""
    body = body or urlencode(form or {}).encode()
    given = {"content-type": "application/x-www-form-urlencoded", **headers}
    path, _, query = url.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "scheme": "http",
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
        "headers": [(k.encode(), v.encode()) for k, v in given.items()],
    }
    sent: list[Any] = []
    received = [{"type": "http.request", "body": body}]

    async def receive() -> Any:
        if received:
            return received.pop()
        await asyncio.sleep(0)
        return {"type": "http.disconnect"} if leaves else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    with contextlib.suppress(*raises):
        await app(scope, receive, send)
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    text = b"".join(part.get("body", b"") for part in sent[1:]).decode()
    return Answer(sent[0]["status"], found, text)


def cookie_of(answer: Answer) -> dict[str, str]:
    return {**OWN, "cookie": answer.headers["set-cookie"].partition(";")[0]}


def served(
    options: ConsoleOptions, work: Callable[[Starlette, ConsoleState], Awaitable[None]]
) -> None:
    async def run() -> None:
        state = ConsoleState(options)
        try:
            await work(build_app(state), state)
        finally:
            state.close()

    in_thread(run)


def in_thread(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it in a loop of its own: Playwright's runs in this thread while its browser is open."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(run())).result()


CHANGES = sorted(
    re.sub(r"\{[^}]*\}", "0", route.path)
    for route in routes()
    if isinstance(route, Route)
    and "POST" in (route.methods or ())
    and not route.path.startswith("/sign-")
)


@pytest.mark.parametrize("write", [False, True])
def test_every_change_is_refused_to_readers_other_sites_and_forms_without_a_token(
    write: bool,
) -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        assert len(CHANGES) >= 20
        for path in CHANGES:
            answer = await ask(app, "POST", path)
            words = "too old" if write else "only reads"
            assert (answer.status, words in answer.text) == (403, True), path
            elsewhere = {**OWN, "origin": "http://elsewhere.example"}
            assert (await ask(app, "POST", path, elsewhere)).status == 403
            sandboxed = {**OWN, "origin": "null"}
            assert (await ask(app, "POST", path, sandboxed)).status == 403

    served(ConsoleOptions(NOBODY, write=write), work)


def test_a_page_of_another_site_loads_nothing_but_its_links_work() -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        loads = {**OWN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        assert (await ask(app, "GET", "/simulation/recording?seed=1", loads)).status == 403
        follows = {**OWN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert (await ask(app, "GET", "/simulation", follows)).status == 200

    served(ConsoleOptions(NOBODY), work)


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.mark.parametrize(
    "path",
    [
        "/topics/{}",
        "/topics/{}/messages",
        "/topics/{}/configs",
        "/topics/{}/produce",
        "/topics?q={}",
        "/groups?q={}&state={}",
        "/group?name={}",
        "/transactions?topic={}&q={}",
        "/security?who={}&name={}",
        "/log?topic={}",
        "/cluster/reassign?topics={}",
        "/sign-in?next={}",
        "/nowhere/{}",
    ],
)
def test_names_in_an_address_are_text_also_if_no_cluster_answers(path: str) -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        address, mark, query = path.partition("?")
        name = HOSTILE.replace("/", "") if "{}" in address else HOSTILE
        pairs = [each.partition("=")[0] for each in query.split("&") if each]
        url = address.format(name) + mark + urlencode([(key, name) for key in pairs])
        answer = await ask(app, "GET", url)
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]

    served(ConsoleOptions(NOBODY, write=True), work)


@pytest.mark.parametrize(
    "url",
    [
        f"/topics?page={'9' * 5000}",
        "/topics?page=٣",
        f"/cluster/brokers/{'9' * 5000}",
        f"/cluster/reassign?topics=a&brokers={'9' * 5000}",
        f"/simulation?seed=-{'9' * 5000}",
    ],
)
def test_a_number_that_is_none_fails_no_page(url: str) -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        assert (await ask(app, "GET", url)).status in (200, 404)

    served(ConsoleOptions(NOBODY), work)


def test_a_bug_of_a_page_is_a_page_with_all_headers() -> None:
    async def fail(_: Any) -> Any:
        raise ZeroDivisionError

    async def work(app: Starlette, _: ConsoleState) -> None:
        app.router.routes.append(Route("/bug", fail))
        answer = await ask(app, "GET", "/bug", raises=(ZeroDivisionError,))  # for the log
        assert (answer.status, "bug of the console" in answer.text) == (500, True)
        assert "default-src 'none'" in answer.headers["content-security-policy"]

    served(ConsoleOptions(NOBODY), work)


# -- changes -----------------------------------------------------------------


def test_a_change_is_carried_out_once_as_it_was_shown(tmp_path: Path) -> None:
    decided: list[str] = []
    done: list[str] = []

    async def decide(page: Page, form: Form) -> Plan:
        decided.append(form["name"])
        number = len(decided)

        async def carry_out() -> str:
            done.append(f"{form['name']} {number}")
            return "It is done."

        return Plan("Do it", [f"{form['name']} {number} happens."], "Do", carry_out, "topics")

    log = tmp_path / "audit.jsonl"

    async def work(app: Starlette, state: ConsoleState) -> None:
        app.router.routes.append(action("/do", "do", decide))
        browser = cookie_of(await ask(app, "GET", "/topics"))
        (session,) = state.sessions._sessions.values()
        csrf = state.sessions.token(session)
        shown = await ask(app, "POST", "/do", browser, {"csrf": csrf, "name": "a", "pass": "word"})
        assert "a 1 happens." in shown.text
        assert "word" not in shown.text.replace("password", "")
        (plan,) = re.findall(r'name="confirmed" value="(\w+)"', shown.text)
        stranger = cookie_of(await ask(app, "GET", "/topics"))
        confirmed = {"csrf": csrf, "confirmed": plan}
        assert (await ask(app, "POST", "/do", stranger, confirmed)).status == 403
        assert (await ask(app, "POST", "/do", browser, confirmed)).status == 303
        assert (await ask(app, "POST", "/do", browser, confirmed)).status == 409
        assert (decided, done) == (["a"], ["a 1"])
        assert len(log.read_text().splitlines()) == 1

    served(ConsoleOptions(NOBODY, write=True, audit_log=log), work)


def test_nothing_is_changed_that_the_audit_log_cannot_record(tmp_path: Path) -> None:
    done: list[str] = []

    async def decide(page: Page, form: Form) -> Plan:
        async def carry_out() -> str:
            done.append("it")
            return "It is done."

        return Plan("Do it", [], "Do", carry_out, "topics")

    async def work(app: Starlette, state: ConsoleState) -> None:
        app.router.routes.append(action("/do", "do", decide))
        browser = cookie_of(await ask(app, "GET", "/topics"))
        (session,) = state.sessions._sessions.values()
        csrf = state.sessions.token(session)
        shown = await ask(app, "POST", "/do", browser, {"csrf": csrf})
        (plan,) = re.findall(r'name="confirmed" value="(\w+)"', shown.text)
        answer = await ask(app, "POST", "/do", browser, {"csrf": csrf, "confirmed": plan})
        assert "audit log cannot be written" in answer.text
        assert done == []

    served(ConsoleOptions(NOBODY, write=True, audit_log=tmp_path / "absent" / "log"), work)


# -- sign-in -----------------------------------------------------------------


def test_a_sign_in_has_a_session_of_its_own_and_leads_to_the_page_that_was_wanted() -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        refused = await ask(app, "GET", "/topics/orders?page=2")
        assert refused.headers["location"] == "../sign-in?next=topics%2Forders%3Fpage%3D2"
        planted = cookie_of(refused)
        form = {"name": "ada", "password": "sesame"}
        url = "/sign-in?next=topics%2Forders%3Fpage%3D2"
        entered = await ask(app, "POST", url, planted, form)
        assert entered.headers["location"] == "./topics/orders?page=2"
        known = cookie_of(entered)
        assert (await ask(app, "GET", "/topics", planted)).status == 303
        assert (await ask(app, "GET", "/topics", known)).status == 200
        evil = await ask(app, "POST", "/sign-in?next=//evil.example/", planted, form)
        assert evil.headers["location"] == ".///evil.example/"  # a path of this host
        await ask(app, "POST", "/sign-out", {**known, "origin": "http://evil.example"})
        assert (await ask(app, "GET", "/topics", known)).status == 200
        await ask(app, "POST", "/sign-out", known)
        assert (await ask(app, "GET", "/topics", known)).status == 303

    served(ConsoleOptions(NOBODY, password="sesame"), work)


def test_a_sign_out_ends_the_live_views_of_other_tabs() -> None:
    async def work(app: Starlette, state: ConsoleState) -> None:
        closed: list[bool] = []
        session = state.sessions.begin()
        session.person = "ada"
        session.cluster = cast("ClusterHandle", SimpleNamespace(close=lambda: closed.append(True)))
        state.sessions.end(session)
        assert closed == [True]
        answer = await ask(app, "GET", "/topics", {**OWN, "accept": "text/event-stream"})
        assert answer.text.endswith("event: renew\ndata: sign-in\n\n")

    served(ConsoleOptions(NOBODY, password="sesame"), work)


def test_two_consoles_on_one_machine_keep_their_sessions_apart() -> None:
    found = {
        ConsoleState(ConsoleOptions(bootstrap, port=port)).sessions.cookie
        for bootstrap, port in (("a:1", 8080), ("a:1", 8081), ("b:1", 8080))
    }
    assert len(found) == 3


def test_a_browser_that_goes_away_stops_its_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    async def run(seed: int, seconds: int) -> bytes | None:
        ran.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            ran.append("ended")
        return None

    monkeypatch.setattr("barnabas.console.pages.simulation_page._run", run)

    async def work(app: Starlette, _: ConsoleState) -> None:
        answer = await ask(app, "GET", "/simulation/recording?seed=1", leaves=True)
        assert (answer.status, ran) == (204, ["began", "ended"])

    served(ConsoleOptions(NOBODY), work)
