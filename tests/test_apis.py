"""docs/apis.md and docs/cli.md list exactly the APIs, clients and commands that exist."""

import re
import subprocess
from pathlib import Path

from tests.support.documents import BIN, ROOT, document, rows
from tests.support.served import ADVERTISED

APIS = document("docs/apis.md")


def test_the_table_of_apis_is_what_is_served() -> None:
    documented = {}
    for name, key, versions in rows(APIS, "API"):
        lowest, _, highest = versions.partition(" to ")
        documented[int(key)] = (name.lower(), int(lowest), int(highest or lowest))
    served = {
        int(key): (key.name.replace("_", "").lower(), api.lowest, api.highest)
        for key, api in ADVERTISED.items()
    }
    assert documented == served
    assert list(documented) == sorted(documented)


def test_each_client_named_is_used_by_a_test() -> None:
    imports = {
        "confluent-kafka": "confluent_kafka",
        "kafka-python": "kafka",
        "aiokafka": "aiokafka",
    }
    tests = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    clients = [client for client, _ in rows(APIS, "Client used in the tests")]
    assert len(clients) == 5
    for client in clients:
        used = rf"(?:from|import) {imports[client]}\b" if client in imports else rf"\b{client}\b"
        assert any(re.search(used, text) for text in tests), client


def test_the_table_of_commands_is_what_the_command_offers() -> None:
    shown = subprocess.run([BIN / "barnabas", "--help"], capture_output=True, text=True).stdout
    _, _, commands = shown.partition("Commands:\n")
    offered = re.findall(r"^  ([a-z]+) ", commands, re.MULTILINE)
    documented = [row[0].strip("`").split()[0] for row in rows(document("docs/cli.md"), "Command")]
    assert list(dict.fromkeys(documented)) == offered
