"""Kafka's kafka-delegation-tokens, and a Java client that logs in with a token.

Skipped where Apache Kafka is not available.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.jaas import jaas_text
from barnabas.config.properties import format_properties
from tests.server.security.conftest import (
    PLAIN_MODULE,
    SCRAM_MODULE,
    USERS,
    SecureBroker,
    make_certificates,
    running,
)
from tests.support.apache_kafka import apache_kafka

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
PRODUCER = "kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
# A row of the tool: token id, HMAC, owner, requester, renewers, and three times.
ROW = re.compile(r"^(\S{22})\s+(\S{88})\s+User:alice\s+User:alice\s+\[User:admin\]", re.MULTILINE)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecureBroker]:
    certificates = make_certificates(tmp_path / "ca")
    with running(tmp_path, certificates, {"delegation.token.secret.key": "key"}) as started:
        yield started


def client_file(
    broker: SecureBroker, folder: Path, mechanism: str, module: str, options: dict[str, str]
) -> Path:
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.certificates / "ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas_text(module, options),
    }
    file = folder / f"{mechanism}-{options['username'][:5]}.properties"
    file.write_text(format_properties(properties))
    return file


def test_kafkas_tool_manages_tokens_and_a_java_client_logs_in_with_one(
    broker: SecureBroker, tmp_path: Path
) -> None:
    kafka = apache_kafka()
    server = ("--bootstrap-server", broker.at("SASL_SSL"))
    login = {"username": "alice", "password": USERS["user_alice"]}
    alice = client_file(broker, tmp_path, "PLAIN", PLAIN_MODULE, login)

    def tool(*arguments: str) -> str:
        return kafka.run(TOKENS, *server, "--command-config", str(alice), *arguments)

    tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:admin")
    # Without an owner the tool asks for the tokens of nobody, of any Kafka.
    own = ("--describe", "--owner-principal", "User:alice")
    described = tool(*own)
    row = ROW.search(described)
    assert row is not None, described
    token_id, hmac = row.groups()
    tool("--renew", "--renew-time-period", "-1", "--hmac", hmac)

    options = {"username": token_id, "password": hmac, "tokenauth": "true"}
    token = client_file(broker, tmp_path, "SCRAM-SHA-512", SCRAM_MODULE, options)
    kafka.run(
        PRODUCER, *server, "--topic", "t", "--producer.config", str(token), stdin="by a token\n"
    )
    read = ("--topic", "t", "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000")
    assert "by a token" in kafka.run(CONSUMER, *server, *read, "--consumer.config", str(token))

    tool("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert ROW.search(tool(*own)) is None
    with pytest.raises(AssertionError, match="SaslAuthenticationException"):
        kafka.run(TOKENS, *server, "--command-config", str(token), "--describe")
