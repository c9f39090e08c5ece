"""SCRAM users: the requests of Kafka's admin client, our command, and the tree."""

import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import KafkaException, admin
from confluent_kafka.admin import AdminClient

from barnabas.client.security import AuthenticationFailed
from tests.server.security.conftest import SecureBroker
from tests.server.security.test_sasl import ALICE, SOON, connect_ours

kinds: Any = admin
SHA_256, SHA_512 = kinds.ScramMechanism.SCRAM_SHA_256, kinds.ScramMechanism.SCRAM_SHA_512


@pytest.fixture
def client(secure_broker: SecureBroker) -> AdminClient:
    return AdminClient({**secure_broker.librdkafka("SASL_SSL", **ALICE)})


def upsertion(user: str, mechanism: Any = SHA_256, iterations: int = 4096) -> Any:
    return kinds.UserScramCredentialUpsertion(
        user, kinds.ScramCredentialInfo(mechanism, iterations), b"secret"
    )


def altered(client: Any, *alterations: Any) -> dict[str, str]:
    """The name of each user's error, or NONE."""
    outcomes = {}
    for user, future in client.alter_user_scram_credentials(list(alterations)).items():
        try:
            future.result(SOON)
            outcomes[user] = "NONE"
        except KafkaException as error:
            outcomes[user] = error.args[0].name()
    return outcomes


def described(client: Any, *users: str) -> dict[str, Any]:
    found = client.describe_user_scram_credentials(list(users))
    outcomes: dict[str, Any] = {}
    for user, future in found.items():
        try:
            infos = future.result(SOON).scram_credential_infos
            outcomes[user] = sorted((info.mechanism.name, info.iterations) for info in infos)
        except KafkaException as error:
            outcomes[user] = error.args[0].name()
    return outcomes


def test_s16_credentials_are_described_without_secrets(client: AdminClient) -> None:
    assert altered(client, upsertion("ann"), upsertion("ann", SHA_512, 8192)) == {"ann": "NONE"}
    assert described(client, "ann", "nobody") == {
        "ann": [("SCRAM_SHA_256", 4096), ("SCRAM_SHA_512", 8192)],
        "nobody": "RESOURCE_NOT_FOUND",
    }
    deletion = kinds.UserScramCredentialDeletion("ann", SHA_256)
    assert altered(client, deletion) == {"ann": "NONE"}
    assert altered(client, deletion) == {"ann": "RESOURCE_NOT_FOUND"}
    assert described(client, "ann") == {"ann": [("SCRAM_SHA_512", 8192)]}


@pytest.mark.parametrize("iterations", [4095, 16385])
def test_s16_too_few_and_too_many_iterations_are_refused_user_by_user(
    client: AdminClient, iterations: int
) -> None:
    outcomes = altered(client, upsertion("few", SHA_256, iterations), upsertion("good"))
    assert outcomes == {"few": "UNACCEPTABLE_CREDENTIAL", "good": "NONE"}
    assert described(client, "few") == {"few": "RESOURCE_NOT_FOUND"}


def test_s16_one_credential_twice_in_a_request_is_refused(client: AdminClient) -> None:
    outcomes = altered(client, upsertion("dup"), upsertion("dup"))
    assert outcomes == {"dup": "DUPLICATE_RESOURCE"}


@pytest.mark.parametrize("user", ["a=b,c", "=2C", "zoë", "*", "<default>", "a%2Cb", "\u202eeve"])
def test_s14_s15_a_user_of_any_name_is_that_user_only(
    secure_broker: SecureBroker, client: AdminClient, user: str
) -> None:
    assert altered(client, upsertion(user)) == {user: "NONE"}
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(secure_broker.certificates / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.password": "secret",
    }
    connect_ours(secure_broker, {**settings, "sasl.username": user})
    for other in (f"{user} ", user.replace("=", "=3D"), user.casefold().upper()):
        if other != user:
            with pytest.raises(AuthenticationFailed):
                connect_ours(secure_broker, {**settings, "sasl.username": other})
    assert altered(client, kinds.UserScramCredentialDeletion(user, SHA_256)) == {user: "NONE"}


@pytest.mark.parametrize("user", [".", ".."])
def test_s15_a_name_that_no_znode_can_have_is_refused(
    secure_broker: SecureBroker, client: AdminClient, user: str
) -> None:
    assert altered(client, upsertion(user)) == {user: "INVALID_REQUEST"}
    assert described(client, user) == {user: "RESOURCE_NOT_FOUND"}
    assert "Traceback" not in secure_broker.process.log()


def test_s15_a_user_is_added_listed_and_deleted_by_the_command(
    secure_broker: SecureBroker,
) -> None:
    connection = secure_broker.librdkafka("SASL_SSL", **ALICE)
    options = ["-b", connection.pop("bootstrap.servers")]
    for key, value in connection.items():
        options += ["-X", f"{key}={value}"]

    def run(*arguments: str, entered: str = "") -> str:
        command = [sys.executable, "-m", "barnabas.cli.main", "users", *arguments, *options]
        done = subprocess.run(command, input=entered, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("add", "com/mand", entered="pass word\n")
    assert "com/mand  SCRAM-SHA-512" in run("list")
    both = {"sasl_username": "com/mand", "sasl_password": "pass word"}
    settings = secure_broker.librdkafka("SASL_SSL", sasl_mechanism="SCRAM-SHA-512", **both)
    assert AdminClient({**settings}).list_topics(timeout=SOON).brokers
    run("delete", "com/mand", "--yes")
    assert "com/mand" not in run("list")
