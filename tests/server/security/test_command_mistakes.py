"""Commands with wrong or missing security properties: one line says what to mend."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.security.conftest import SecureBroker, StartBroker
from tests.server.security.test_sasl import ALICE

COMMANDS = (["topics", "list"], ["txns", "list"])


def failure(*arguments: str, code: int = 1) -> str:
    command = [sys.executable, "-m", "barnabas.cli.main", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (code, "", 1), ended
    return ended.stderr


def properties(folder: Path, settings: dict[str, str]) -> list[str]:
    """The options of a client with these settings, in the names of Kafka's Java client."""
    bootstrap = settings.pop("bootstrap.servers")
    login = [settings.pop("sasl.username"), settings.pop("sasl.password")]
    settings["ssl.truststore.location"] = settings.pop("ssl.ca.location")
    settings["ssl.truststore.type"] = "PEM"
    settings["sasl.jaas.config"] = (
        'a.PlainLoginModule required username="{}" password="{}";'.format(*login)
    )
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return ["-b", bootstrap, "--command-config", str(file)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_wrong_password_is_not_a_broker_that_is_down(
    command: list[str], secure_broker: SecureBroker, tmp_path: Path
) -> None:
    wrong = {**ALICE, "sasl_password": "wrong"}
    options = properties(tmp_path, secure_broker.librdkafka("SASL_SSL", **wrong))
    said = failure(*command, *options)
    assert "refuses" in said
    assert "uthentication failed" in said
    assert "barnabas server" not in said


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_error_of_a_plain_client_of_a_secure_listener_names_the_protocol(
    command: list[str], secure_broker: SecureBroker
) -> None:
    said = failure(*command, "-b", secure_broker.at("SASL_SSL"))
    assert "accepts connections but does not speak PLAINTEXT Kafka" in said
    assert "may have another security.protocol" in said
    assert "barnabas server" not in said


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_sasl_without_a_mechanism_is_a_usage_error(command: list[str]) -> None:
    said = failure(*command, "-X", "security.protocol=SASL_SSL", code=2)
    assert "sasl.mechanism is" in said


def test_a_missing_certificate_is_not_a_broker_that_is_down(
    start_secure: StartBroker, tmp_path: Path
) -> None:
    broker = start_secure({"ssl.client.auth": "required"})
    file = tmp_path / "client.properties"
    trusted = broker.certificates / "ca.pem"
    file.write_text(f"security.protocol=SSL\nssl.truststore.location={trusted}\n")
    for command in COMMANDS:
        said = failure(*command, "-b", broker.at("SSL"), "--command-config", str(file))
        assert "refuses the connection" in said
        assert "certificate required" in said
    assert "why=PEER_DID_NOT_RETURN_A_CERTIFICATE" in broker.process.log()
