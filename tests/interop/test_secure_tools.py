"""Kafka's own tools over SASL_SSL against a broker of ours, and its password encoder.

Skipped where Apache Kafka is not available.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.base.randomness import Random
from barnabas.config.properties import format_properties
from barnabas.security.password_encoder import PasswordEncoder
from tests.support.apache_kafka import apache_kafka
from tests.support.logins import Login, java
from tests.support.secure_broker import SecureBroker, secure_broker

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

ACLS: Final = "kafka.admin.AclCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
PRODUCER: Final = "kafka.tools.ConsoleProducer"
CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PASSWORDS: Final = str(Path(__file__).parent / "KafkaPasswords.java")
CAROL: Final = ("--entity-type", "users", "--entity-name", "carol")

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    apache_kafka()
    with secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


@pytest.fixture
def tool(secure: SecureBroker, tmp_path: Path) -> Tool:
    """Runs a tool with the login of a user; `option` names the file of its properties."""

    def run(
        class_name: str,
        *arguments: str,
        login: Login | None = None,
        option: str = "--command-config",
        stdin: str = "",
    ) -> str:
        user = login or secure.logins["SASL_SSL PLAIN"]
        file = tmp_path / "client.properties"
        file.write_text(format_properties(java(user)))
        at = ("--bootstrap-server", user.bootstrap, option, str(file))
        return apache_kafka().run(class_name, *at, *arguments, stdin=stdin)

    return run


def test_a_user_whom_the_tools_made_produces_and_consumes_what_her_acls_allow(
    secure: SecureBroker, tool: Tool
) -> None:
    tool(TOPICS, "--create", "--topic", "orders", "--partitions", "1")
    assert "orders" in tool(TOPICS, "--list").split()
    password = "SCRAM-SHA-512=[iterations=4096,password=carol-secret]"
    tool(CONFIGS, "--alter", "--add-config", password, *CAROL)
    described = tool(CONFIGS, "--describe", *CAROL)
    assert "SCRAM-SHA-512=iterations=4096" in described
    like = secure.logins["SASL_SSL SCRAM-SHA-512"]
    carol = Login(
        like.bootstrap,
        like.protocol,
        like.mechanism,
        user="carol",
        password="carol-secret",
        authority=like.authority,
    )
    assert "orders" not in tool(TOPICS, "--list", login=carol)

    allow = ("--allow-principal", "User:carol", "--topic", "orders")
    tool(ACLS, "--add", "--producer", *allow)
    tool(ACLS, "--add", "--consumer", "--group", "billing", *allow)
    assert "User:carol" in tool(ACLS, "--list", "--topic", "orders")
    sent = tool(
        PRODUCER,
        "--topic",
        "orders",
        login=carol,
        option="--producer.config",
        stdin="one\ntwo\n",
    )
    assert "ERROR" not in sent
    consume = ("--topic", "orders", "--group", "billing", "--from-beginning")
    limits = ("--max-messages", "2", "--timeout-ms", "60000")
    read = tool(CONSUMER, *consume, *limits, login=carol, option="--consumer.config")
    assert [line for line in read.splitlines() if line in ("one", "two")] == ["one", "two"]


def test_quotas_of_users_and_client_ids_are_set_described_and_deleted(tool: Tool) -> None:
    tool(CONFIGS, "--alter", "--add-config", "producer_byte_rate=1024", *CAROL)
    assert "producer_byte_rate=1024.0" in tool(CONFIGS, "--describe", *CAROL)
    tool(CONFIGS, "--alter", "--delete-config", "producer_byte_rate", *CAROL)
    assert "producer_byte_rate" not in tool(CONFIGS, "--describe", *CAROL)


@pytest.mark.parametrize("password", ["short", "exactly-16-bytes", "longer than one block, ümlaut"])
def test_s9_kafka_decodes_the_passwords_that_we_encode_and_we_decode_those_of_kafka(
    password: str,
) -> None:
    encoder = PasswordEncoder("the secret")

    def kafka(verb: str, value: str) -> str:
        options = ("the secret", verb, value)
        return apache_kafka().run(PASSWORDS, *options).strip().splitlines()[-1]

    assert kafka("decode", encoder.encode(password, Random(7))) == password
    assert encoder.decode(kafka("encode", password)) == password
