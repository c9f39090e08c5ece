"""Access to the console: read-only, tokens, password, proxy, SASL users; the audit log."""

import contextlib
import http.client
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request

from barnabas.base.clock import SystemClock
from barnabas.base.randomness import Random
from barnabas.cli.main import run
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.web.access import Sessions
from barnabas.console.web.page import Page
from tests.console.conftest import ConsoleProcess, Visitor, running_console
from tests.server.security.conftest import make_certificates, running
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

Visit = Callable[..., Visitor]


@pytest.fixture
def topic(topic: str, broker: BrokerProcess) -> str:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 2, 1)])[topic].result(30)
    return topic


@pytest.mark.long  # tests/console/test_web.py has all routes
def test_a_console_without_write_offers_no_change_and_refuses_all(
    visit: Visit, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    with running_console(broker.bootstrap) as reading:
        person = visit(at=reading)
        page = person.open(f"topics/{topic}", topic)
        assert page.get_by_role("link", name="Produce").count() == 0
        answer = page.request.post(f"{reading.url}topics/{topic}/delete", form={"confirmed": "yes"})
        assert answer.status == 403
        assert "only reads" in answer.text()


@pytest.mark.long  # tests/console/test_web.py has all routes
def test_a_form_without_the_browsers_token_or_from_another_site_changes_nothing(
    visit: Visit, console: ConsoleProcess, topic: str
) -> None:
    person = visit()
    page = person.open(f"topics/{topic}", topic)
    url = f"{console.url}topics/{topic}/delete"
    form: dict[str, str | float | bool] = {"confirmed": "yes", "again": topic, "csrf": "0" * 64}
    assert page.request.post(url, form=form).status == 403
    headers = {"origin": "http://elsewhere.example"}
    assert page.request.post(url, form=form, headers=headers).status == 403
    person.open(f"topics/{topic}", topic)


def test_the_password_opens_the_console_and_names_the_person(
    visit: Visit, broker: BrokerProcess
) -> None:
    with running_console(broker.bootstrap, password="sesame") as guarded:
        person = visit(at=guarded)
        page = person.open("topics", "Sign in")
        person.check_all_looks()
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("This is not the password.").wait_for()
        person.complaints.clear()  # the browser's line about the status 403
        person.check_all_looks()
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill("sesame")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text(re.compile("ada · read-only")).wait_for()


@pytest.mark.long
def test_a_proxy_names_the_person_and_nobody_else_gets_in(
    visit: Visit, broker: BrokerProcess
) -> None:
    with running_console(broker.bootstrap, "--user-header=X-Person") as guarded:
        request = visit(at=guarded).page.request
        assert request.get(f"{guarded.url}topics").status == 401
        answer = request.get(f"{guarded.url}topics", headers={"X-Person": "grace"})
        assert answer.status == 200
        assert "grace" in answer.text()


def test_the_header_is_believed_of_named_proxies_only(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["console", "--listen", "0.0.0.0:0", "--user-header", "X-Person"]) == 2
    assert "name the proxy with --proxy" in capfd.readouterr().err
    assert run(["console", "--user-header", "X-Person", "--proxy", "nowhere"]) == 2

    def person(peer: str) -> str:
        options = ConsoleOptions("b:1", user_header="X-Person", proxies=("10.0.0.5",))
        state = SimpleNamespace(options=options, sessions=Sessions(Random(), SystemClock()))
        scope = {
            "type": "http",
            "path": "/",
            "client": (peer, 1),
            "headers": [(b"x-person", b"grace")],
            "app": SimpleNamespace(state=SimpleNamespace(console=state)),
        }
        return Page(Request(scope)).person

    assert [person(each) for each in ("10.0.0.5", "127.0.0.1", "10.0.0.6")] == [
        "grace",
        "grace",
        "",
    ]


def test_a_name_of_another_site_is_not_served(visit: Visit, console: ConsoleProcess) -> None:
    answer = visit().page.request.get(console.url, headers={"host": "evil.example"})
    assert answer.status == 421


def test_an_open_address_needs_a_door(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["console", "--listen", "0.0.0.0:0"]) == 2
    assert "others than this machine reach it" in capfd.readouterr().err


@pytest.mark.long
def test_every_change_is_in_the_audit_log(
    visit: Visit, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    log = tmp_path / "audit.jsonl"
    with running_console(broker.bootstrap, "--write", f"--audit-log={log}") as writing:
        person = visit(at=writing)
        page = person.open(f"topics/{topic}/actions", topic)
        page.get_by_label("New total").fill("5")
        page.get_by_role("button", name="Add…").click()
        person.confirm("Add")
        page.get_by_text("has 5 partitions now").wait_for()
    (entry,) = map(json.loads, log.read_text().splitlines())
    assert (entry["person"], entry["outcome"]) == ("local", "done")
    assert topic in entry["what"]


@pytest.mark.long
def test_a_person_signs_in_as_themselves_and_the_cluster_decides(
    visit: Visit, tmp_path: Path
) -> None:
    guarded = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }
    certificates = make_certificates(tmp_path / "ca")
    with running(tmp_path, certificates, guarded) as broker:
        at = broker.at("SASL_PLAINTEXT")
        options = ("--write", "--sign-in=PLAIN", f"--pipelines={tmp_path}")
        with running_console(at, *options) as console:
            ada = visit(at=console)
            page = ada.open("topics", "Sign in")
            page.get_by_text("not signed in").wait_for()
            _sign_in(ada, "admin", "wrong")
            page.get_by_text("The cluster refuses admin").wait_for()
            ada.complaints.clear()  # the browser's line about the status 403
            _sign_in(ada, "admin", "admin-secret")
            page.get_by_text("admin · may change things").wait_for()
            ada.open("topics-new", "Create a topic").get_by_label("Name").fill("ours")
            page.get_by_role("button", name="Create…").click()
            ada.confirm("Create")
            page.get_by_text("Topic ours was created.").wait_for()
            ada.check()
            alice = visit(at=console)
            page = alice.open("", "Sign in")
            _sign_in(alice, "alice", 'a"l\\ice')
            alice.open("topics", "Topics").get_by_text("No topics that alice may see").wait_for()
            alice.open("groups", "Groups").get_by_text("No groups that alice may see").wait_for()
            alice.open("cluster", "Cluster").get_by_text("Log directories").wait_for()
            page.get_by_text("The list of reassignments: cluster authorization").wait_for()
            alice.open("topics-new", "Create a topic").get_by_label("Name").fill("hers")
            page.get_by_role("button", name="Create…").click()
            alice.confirm("Create")
            page.get_by_text(re.compile("failed: .*authoriz")).wait_for()
            alice.check_all_looks()
            alice.open("pipelines", "Pipelines").get_by_text("alice may not").wait_for()
            alice.check_all_looks()
            assert page.get_by_text("Started here").count() == 0
            assert _answer_to_archive(alice, console).count("does not allow alice to alter it") == 1
            assert _answer_to_archive(ada, console).count("This machine runs") == 1
            page.get_by_role("button", name="Sign out").click()
            page.get_by_role("heading", name="Sign in").wait_for()
            alice.check()


def _answer_to_archive(person: Visitor, console: ConsoleProcess) -> str:
    """The console's answer before it starts a process on its machine."""
    token = person.page.locator("input[name=csrf]").first
    person.open("topics-new", "Create a topic")
    form: dict[str, str | float | bool] = {
        "csrf": token.get_attribute("value") or "",
        "kind": "archive",
        "topic": "ours",
    }
    return person.page.request.post(f"{console.url}pipelines/start", form=form).text()


def _sign_in(person: Visitor, name: str, password: str) -> None:
    person.page.get_by_label("Name").fill(name)
    person.page.get_by_label("Password").fill(password)
    person.page.get_by_role("button", name="Sign in").click()


# -- behind a proxy ----------------------------------------------------------


class _Proxy(BaseHTTPRequestHandler):
    """Serves a console below /ops/kafka/."""

    target = ""

    def _pass_on(self) -> None:
        if not self.path.startswith("/ops/kafka/"):
            self.send_error(404)
            return
        # A browser that leaves a page ends its stream of events.
        connection = http.client.HTTPConnection(self.target, timeout=30)
        with contextlib.closing(connection), contextlib.suppress(ConnectionError):
            self._forward(connection)

    def _forward(self, upstream: http.client.HTTPConnection) -> None:
        size = int(self.headers.get("content-length", 0))
        sent = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        sent |= {"Host": self.target, "X-Forwarded-Host": self.headers["host"]}
        path = self.path.removeprefix("/ops/kafka")
        upstream.request(self.command, path, self.rfile.read(size) or None, sent)
        with upstream.getresponse() as answer:
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in ("transfer-encoding", "connection", "date"):
                    self.send_header(key, value)
            self.end_headers()
            while part := answer.read1():
                self.wfile.write(part)
                self.wfile.flush()

    do_GET = do_POST = _pass_on

    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""


class Proxied:
    def __init__(self, url: str) -> None:
        self.url = url


@pytest.fixture
def proxied(console: ConsoleProcess) -> Iterator[Proxied]:
    handler = type("Proxy", (_Proxy,), {"target": urlsplit(console.url).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Proxied(f"http://127.0.0.1:{server.server_port}/ops/kafka/")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# The proxy first: it waits for its threads, which end with the browser's pages.
@pytest.mark.long
def test_it_works_below_the_path_of_a_proxy(proxied: Any, visit: Visit, topic: str) -> None:
    person = visit(at=proxied)
    page = person.open("", "Overview")
    page.get_by_text("live", exact=True).wait_for()
    page.get_by_role("link", name="Topics", exact=True).click()
    page.get_by_role("searchbox").fill(topic)
    page.get_by_role("link", name=topic, exact=True).click()
    page.get_by_role("link", name="Actions", exact=True).click()
    page.get_by_label("New total").fill("3")
    page.get_by_role("button", name="Add…").click()
    person.confirm("Add")
    page.get_by_text("has 3 partitions now").wait_for()
    assert page.url.startswith(f"{proxied.url}topics/")
    person.check()
    page = person.open(f"topics/{topic}/produce", topic)
    page.get_by_label("Value", exact=True).fill("below a path")
    page.get_by_role("button", name="Produce…").click()
    person.confirm("Produce")
    page.get_by_role("button", name="Message 0 0").click()
    links = page.locator("tr:not(.message) dd a")
    found = links.evaluate_all("links => links.map(link => link.href)")
    assert len(found) == 2
    assert all(each.startswith(f"{proxied.url}topics/{topic}/") for each in found)


def test_nothing_but_the_consoles_own_files_may_run(visit: Visit, console: ConsoleProcess) -> None:
    policy = visit().page.request.get(console.url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
