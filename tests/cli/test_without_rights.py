"""Commands of a user who may read one topic, and nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.base.ports import free_port
from tests.cli.conftest import Barnabas
from tests.support.broker import BrokerProcess

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Guarded(NamedTuple):
    """A broker with an authorizer: the address without a login, and options of the reader."""

    open: str
    reader: tuple[str, ...]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    inside, outside = (f"127.0.0.1:{free_port()}" for _ in range(2))
    broker = BrokerProcess(
        folder,
        overrides=[
            f"listeners=PLAINTEXT://{inside},SASL_PLAINTEXT://{outside}",
            "inter.broker.listener.name=PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN",
            f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_reader="secret";',
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            "super.users=User:ANONYMOUS",
        ],
    )
    login = folder / "reader.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} username="reader" password="secret";\n'
    )
    with broker.running():
        yield Guarded(inside, ("-b", outside, "--command-config", str(login)))


@pytest.fixture
def orders(guarded: Guarded, offline: Barnabas) -> str:
    """A topic with one message, which the reader may read."""
    admin = ("-b", guarded.open)
    assert offline("topics", "create", "orders", "--if-not-exists", *admin).code == 0
    assert offline("produce", "orders", "first", *admin).code == 0
    allow = ("--allow", "User:reader", "--operation", "read", "--topic", "orders")
    assert offline("acls", "add", *allow, *admin).code == 0
    return "orders"


@pytest.mark.parametrize(
    ("acks", "error"),
    [("all", "CLUSTER_AUTHORIZATION_FAILED"), ("1", "TOPIC_AUTHORIZATION_FAILED")],
)
def test_a_message_that_may_not_be_written_is_one_line_with_the_right_that_is_missing(
    guarded: Guarded, orders: str, offline: Barnabas, acks: str, error: str
) -> None:
    ended = offline("produce", orders, "x", "--acks", acks, *guarded.reader)
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, b"", 1), ended.err
    assert "0 messages delivered to orders, 1 failed" in ended.err
    assert f"[{error}]" in ended.err
    assert "acls add --allow User:NAME --operation write --topic orders" in ended.err


def test_an_idempotent_producer_needs_write_on_its_topic_alone(
    guarded: Guarded, orders: str, offline: Barnabas
) -> None:
    write = ("--operation", "write", "--topic", "payments")
    assert offline("topics", "create", "payments", "-b", guarded.open).code == 0
    assert offline("acls", "add", "--allow", "User:reader", *write, "-b", guarded.open).code == 0
    assert offline("produce", "payments", "x", *guarded.reader).code == 0
    elsewhere = offline("produce", orders, "x", *guarded.reader)
    assert "[TOPIC_AUTHORIZATION_FAILED]" in elsewhere.err
    remove = ("acls", "remove", "--topic", "payments", "--yes")
    assert offline(*remove, "-b", guarded.open).code == 0


def test_reading_a_topic_needs_no_right_on_a_group(
    guarded: Guarded, orders: str, offline: Barnabas
) -> None:
    ended = offline("consume", orders, "--count", 1, *guarded.reader)
    assert (ended.code, ended.lines, ended.err) == (0, ["first"], "")
    to_the_end = offline("consume", orders, *guarded.reader)
    assert (to_the_end.code, to_the_end.err) == (0, "")


def test_a_topic_whose_configs_are_hidden_is_described_without_them(
    guarded: Guarded, orders: str, offline: Barnabas
) -> None:
    ended = offline("topics", "describe", orders, *guarded.reader)
    assert ended.code == 0
    assert ended.lines[-2].split()[-1] == "ok"
    assert "configs of orders not shown" in ended.err
    assert "DESCRIBE_CONFIGS" in ended.err
    (found,) = json.loads(offline("topics", "describe", orders, "--json", *guarded.reader).out)
    assert (found["configs"], found["min_isr"]) == (None, None)
