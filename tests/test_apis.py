"""docs/apis.md and docs/cli.md list exactly the APIs, clients and commands that exist."""

import json
import re
import subprocess
from pathlib import Path

from tests.golden.make import GOLDEN
from tests.support.documents import BIN, ROOT, document, rows
from tests.support.served import ADVERTISED

APIS = document("docs/apis.md")


KAFKA_3_9 = {
    int(key): range(lowest, highest + 1)
    for key, (lowest, highest) in json.loads((GOLDEN / "api-versions.json").read_text()).items()
}


def versions(cell: str) -> range:
    """`0 to 3`, `0` or `none`."""
    lowest, _, highest = cell.removesuffix("none").partition(" to ")
    return range(int(lowest), int(highest or lowest) + 1) if lowest else range(0)


def test_the_table_of_apis_is_what_is_served() -> None:
    documented = {
        int(key): (name.lower(), versions(served)) for name, key, served, *_ in rows(APIS, "API")
    }
    served = {
        int(key): (key.name.replace("_", "").lower(), range(api.advertised_lowest, api.highest + 1))
        for key, api in ADVERTISED.items()
    }
    assert documented == served
    assert list(documented) == sorted(documented)


def test_the_table_says_how_the_versions_differ_from_those_of_kafka() -> None:
    for name, key, served, kafka, difference in rows(APIS, "API"):
        theirs, ours = KAFKA_3_9.get(int(key), range(0)), versions(served)
        assert versions(kafka) == theirs, name
        named = [part.partition(":")[0] for part in difference.split("; ")]
        differing = {version for each in named for version in versions(each or "none")}
        assert differing == set(ours) ^ set(theirs), name


def test_the_apis_of_kafka_that_are_not_served_are_listed() -> None:
    listed = [int(key) for _, key, _ in rows(APIS, "API of Kafka 3.9")]
    assert listed == sorted(KAFKA_3_9.keys() - set(map(int, ADVERTISED)))


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
