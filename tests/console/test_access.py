"""The console's door: logins, sessions, and what a stranger can make it keep."""

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette

from barnabas.base.clock import SystemClock
from barnabas.base.randomness import Random
from barnabas.cli.exit_codes import Misused
from barnabas.cli.main import run
from barnabas.client.security import SecurityContext
from barnabas.console.console_command import _security
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ConsoleState
from barnabas.console.pages.pipelines_page import _command
from barnabas.console.pages.sign_in_page import login_properties
from barnabas.console.web.access import Session, Sessions
from barnabas.console.web.actions import WrongInput
from tests.console.test_web import OWN, ask, served


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


def test_one_user_of_the_cluster_has_a_bounded_number_of_sessions() -> None:
    sessions, closed = Sessions(Random(), SystemClock()), list[int]()

    def sign_in(person: str, number: int) -> Session:
        session = sessions.begin()
        cluster = SimpleNamespace(close=lambda: closed.append(number))
        sessions.sign_in(session, person, cluster)
        return session

    other = sign_in("grace", -1)
    many = [sign_in("ada", number) for number in range(25)]
    assert closed == [0, 1, 2, 3, 4]
    assert [each.person for each in (other, many[4], many[5])] == ["grace", None, "ada"]


@pytest.mark.parametrize("topic", ["../../etc", "/etc/x", "..", "--to=/etc", "a/b", ""])
def test_an_archive_stays_below_the_directory_of_pipelines(topic: str, tmp_path: Any) -> None:
    options = ConsoleOptions("b:9092", pipelines=(tmp_path,))
    page: Any = SimpleNamespace(state=SimpleNamespace(options=options))
    with pytest.raises(WrongInput):
        _command(page, "archive", {"topic": topic})


def test_a_session_that_nobody_uses_ends_after_hours() -> None:
    class Hours:
        hours = 0

        def now_ms(self) -> int:
            return self.hours * 3_600_000

    clock = Hours()
    sessions = Sessions(Random(), clock)
    cookies = {sessions.cookie: sessions.begin().id}
    for clock.hours in (11, 22):  # each use counts
        assert sessions.find(cookies) is not None
    clock.hours = 35
    assert sessions.find(cookies) is None


def test_one_door_is_enough(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_CONSOLE_PASSWORD", "sesame")
    assert run(["console", "--listen", "127.0.0.1:0", "--user-header", "X-Person"]) == 2
    assert "only one of them would be asked for" in capfd.readouterr().err


URLENCODED = "application/x-www-form-urlencoded"
UPLOAD = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nxxx\r\n--b--\r\n'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (URLENCODED, b"password=" + b"x" * 100_000),
        (URLENCODED, b"&".join(b"f%d=x" % number for number in range(100))),
        ("multipart/form-data; boundary=b", UPLOAD),
    ],
    ids=["long", "many", "file"],
)
def test_a_stranger_sends_nothing_that_fills_memory_or_disk(kind: str, body: bytes) -> None:
    async def work(app: Starlette, _: ConsoleState) -> None:
        headers = {**OWN, "content-type": kind}
        assert (await ask(app, "POST", "/sign-in", headers, body=body)).status == 400

    served(ConsoleOptions("127.0.0.1:1", password="secret"), work)
