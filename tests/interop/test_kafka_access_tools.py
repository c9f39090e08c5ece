"""Kafka's own kafka-acls and kafka-configs against a broker of ours.

Skipped where Apache Kafka is not available.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import apache_kafka
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ACLS = "kafka.admin.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def authorizing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("authorizing")
    overrides = (
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "super.users=User:ANONYMOUS",
    )
    broker = BrokerProcess(folder, overrides=overrides)
    with broker.running():
        yield broker


def test_kafka_acls_adds_lists_and_removes(authorizing: BrokerProcess) -> None:
    def acls(*arguments: str) -> str:
        server = ("--bootstrap-server", authorizing.bootstrap)
        return apache_kafka().run(ACLS, *server, *arguments)

    allow = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    acls("--add", *allow)
    acls(
        "--add",
        "--deny-principal",
        "User:bob",
        "--group",
        "g",
        "--resource-pattern-type",
        "prefixed",
    )
    listed = acls("--list")
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "principal=User:bob, host=*, operation=ALL, permissionType=DENY" in listed
    assert "patternType=PREFIXED" in listed
    acls("--remove", *allow, "--force")
    assert "User:alice" not in acls("--list", "--topic", "orders")


def test_kafka_configs_sets_and_removes_quotas(authorizing: BrokerProcess) -> None:
    def configs(*arguments: str) -> str:
        server = ("--bootstrap-server", authorizing.bootstrap)
        return apache_kafka().run(CONFIGS, *server, *arguments)

    alice = ("--entity-type", "users", "--entity-name", "alice")
    added = "producer_byte_rate=1024,controller_mutation_rate=2.5"
    configs("--alter", "--add-config", added, *alice)
    described = configs("--describe", *alice)
    assert "producer_byte_rate=1024.0" in described
    assert "controller_mutation_rate=2.5" in described
    configs("--alter", "--delete-config", "producer_byte_rate", *alice)
    assert "producer_byte_rate" not in configs("--describe", *alice)
    default = ("--entity-type", "clients", "--entity-default")
    configs("--alter", "--add-config", "request_percentage=50", *default)
    assert "request_percentage=50.0" in configs("--describe", *default)
