"""The console's door: logins, sessions, and what a stranger can make it keep."""

import contextlib
import http.client
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from barnabas.base.clock import SystemClock
from barnabas.base.randomness import Random
from barnabas.cli.exit_codes import Misused
from barnabas.client.security import SecurityContext
from barnabas.console.console_command import _security
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.pages.pipelines_page import _command
from barnabas.console.pages.sign_in_page import login_properties
from barnabas.console.web.access import Sessions
from barnabas.console.web.actions import WrongInput
from tests.console.conftest import ConsoleProcess, running_console
from tests.support.broker import BrokerProcess


def test_a_person_signs_in_as_themselves_also_if_the_console_has_a_jaas_config() -> None:
    jaas = 'org.example.Scram required username="admin" password="secret";'
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas}
    options = ConsoleOptions("b:9092", properties=properties, sasl_mechanism="SCRAM-SHA-512")
    login = SecurityContext.of(login_properties(options, "eve", "guess")).login
    assert login is not None
    assert (login.username, login.password) == ("eve", "guess")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", " ssl"])
def test_people_cannot_sign_in_where_the_cluster_checks_no_password(protocol: str) -> None:
    with pytest.raises(Misused, match=r"security\.protocol"):
        _security({"security.protocol": protocol}, "PLAIN")


def test_people_cannot_sign_in_with_the_bearer_token_of_the_console() -> None:
    with pytest.raises(Misused, match="SCRAM-SHA-512"):
        _security({}, "OAUTHBEARER")


def test_requests_of_strangers_end_no_session_of_a_person() -> None:
    sessions = Sessions(Random(), SystemClock())
    known = sessions.begin()
    known.person = "ada"
    for _ in range(2_000):
        last = sessions.begin()
    assert sessions.find({sessions.cookie: known.id}) is known
    assert sessions.find({sessions.cookie: last.id}) is last


@pytest.mark.parametrize("topic", ["../../etc", "/etc/x", "..", "--to=/etc", "a/b", ""])
def test_an_archive_stays_below_the_directory_of_pipelines(topic: str, tmp_path: Any) -> None:
    options = ConsoleOptions("b:9092", pipelines=(tmp_path,))
    page: Any = SimpleNamespace(state=SimpleNamespace(options=options))
    with pytest.raises(WrongInput):
        _command(page, "archive", {"topic": topic})


def test_a_stranger_sends_no_form_that_fills_the_memory(broker: BrokerProcess) -> None:
    with (
        running_console(broker.bootstrap, password="secret") as console,
        contextlib.closing(_connected(console)) as connection,
    ):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/sign-in", b"password=" + b"x" * 10_000_000, headers)
        with connection.getresponse() as response:
            assert response.status == 400


def test_a_stranger_uploads_no_file(broker: BrokerProcess) -> None:
    part = b'Content-Disposition: form-data; name="f"; filename="f"'
    body = b"--b\r\n" + part + b"\r\n\r\nxxx\r\n--b--\r\n"
    with (
        running_console(broker.bootstrap, password="secret") as console,
        contextlib.closing(_connected(console)) as connection,
    ):
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        connection.request("POST", "/sign-in", body, headers)
        with connection.getresponse() as response:
            assert response.status == 400


def _connected(console: ConsoleProcess) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=30)
