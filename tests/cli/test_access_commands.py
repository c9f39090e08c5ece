"""`barnabas acls` and `barnabas quotas` against a broker with an authorizer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Barnabas
from tests.support.broker import BrokerProcess

AUTHORIZER = (
    "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
    "super.users=User:ANONYMOUS;User:root",
)


@pytest.fixture(scope="module")
def authorizing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("authorizing")
    broker = BrokerProcess(folder, overrides=AUTHORIZER)
    with broker.running():
        yield broker


@pytest.fixture
def command(
    offline: Barnabas, authorizing: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> Barnabas:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", authorizing.bootstrap)
    return offline


def test_acls_are_added_listed_explained_and_removed(command: Barnabas) -> None:
    allow = ("acls", "add", "--allow", "User:alice", "--operation", "read")
    added = command(*allow, "--topic", "orders", "--prefixed")
    assert added.code == 0, added.err
    assert added.lines[1].split() == [
        "ALLOW", "User:alice", "*", "READ", "TOPIC", "PREFIXED", "orders",
    ]  # fmt: skip
    listed = json.loads(command("acls", "list", "--topic", "orders-1", "--matching", "--json").out)
    assert [each["principal"] for each in listed] == ["User:alice"]
    explain = ("acls", "explain", "--principal", "User:alice", "--topic", "orders-1")
    allowed = command(*explain, "--operation", "describe")
    assert allowed.code == 0
    assert allowed.lines == [
        "allowed: an ACL allows it",
        "  ALLOW User:alice from * to READ on Topic:PREFIXED:orders",
    ]
    denied = command(*explain, "--operation", "write", "--json")
    assert denied.code == 1
    assert json.loads(denied.out)["reason"] == "no ACL allows it"
    root = command(
        "acls", "explain", "--principal", "User:root", "--operation", "alter", "--cluster"
    )
    assert root.lines == ["allowed: the principal is a super user (super.users)"]
    removed = command("acls", "remove", "--topic", "orders", "--prefixed", "--yes")
    assert removed.code == 0
    assert json.loads(command("acls", "list", "--json").out) == []
    assert command("acls", "remove", "--topic", "orders", "--yes").code == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("add", "--operation", "read", "--topic", "t"), "name a principal"),
        (
            ("explain", "--principal", "a", "--operation", "read", "--topic", "t"),
            "must be Type:name",
        ),
        (("add", "--allow", "User:a", "--operation", "fly", "--topic", "t"), "fly is no operation"),
        (("add", "--allow", "User:a"), "name one resource"),
        (("add", "--allow", "alice", "--topic", "t"), "must be Type:name"),
        (("add", "--allow", "User:a", "--topic", "a/b"), "'/'"),
    ],
)
def test_acls_that_cannot_be_meant_are_refused(
    offline: Barnabas, arguments: tuple[str, ...], error: str
) -> None:
    ended = offline("acls", *arguments)
    assert ended.code == 2
    assert error in ended.err


def test_quotas_are_set_listed_and_removed(command: Barnabas) -> None:
    assert command("quotas", "set", "--user", "alice", "producer_byte_rate=1024").code == 0
    both = ("--default-user", "--client-id", "etl")
    assert command("quotas", "set", *both, "request_percentage=12.5").code == 0
    listed = json.loads(command("quotas", "list", "--json").out)
    found = [(each["user"], each["client_id"], each["quota"], each["value"]) for each in listed]
    assert found == [
        ("alice", None, "producer_byte_rate", 1024),
        ("<default>", "etl", "request_percentage", 12.5),
    ]
    refused = command("quotas", "set", "--user", "alice", "nonsense=1")
    assert refused.code == 1
    assert "Invalid configuration key nonsense" in refused.err
    assert command("quotas", "set", "--user", "alice", "producer_byte_rate").code == 2
    assert command("quotas", "remove", "--user", "alice", "producer_byte_rate").code == 0
    assert command("quotas", "remove", *both, "request_percentage").code == 0
    assert json.loads(command("quotas", "list", "--json").out) == []
