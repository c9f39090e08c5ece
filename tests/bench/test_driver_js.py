"""The kafkajs driver: the contract, and the reason if it is unavailable."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.bench.compare.client_driver import ClientFailed, Driver, Unavailable, run
from barnabas.bench.compare.driver_cache import SOURCES
from barnabas.bench.compare.driver_js import kafkajs
from tests.bench.driver_contract import DriverContract, Tools, available

PUBLIC = "https://registry.npmjs.org/"
NODE = "echo v20.1.0"


@pytest.fixture(scope="module")
def driver() -> Driver:
    return available(kafkajs())


class TestKafkajs(DriverContract):
    def test_it_refuses_a_protocol_that_it_does_not_have(self, driver: Driver) -> None:
        spec = {"role": "consume", "bootstrap": "127.0.0.1:1", "protocol": "consumer"}
        with pytest.raises(ClientFailed, match="no consumer protocol"):
            run(driver, spec)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tools]:
    kafkajs.cache_clear()
    yield Tools(tmp_path, monkeypatch)
    kafkajs.cache_clear()


@pytest.mark.parametrize(
    ("present", "reason"),
    [
        ({}, "node not found"),
        ({"node": NODE}, "npm not found"),
        ({"node": "echo v16.20.2", "npm": ""}, "node is older than 18"),
    ],
)
def test_without_node_or_npm_one_line_says_so(
    tools: Tools, present: dict[str, str], reason: str
) -> None:
    for name, script in present.items():
        tools.add(name, script)
    found = kafkajs()
    assert isinstance(found, Unavailable)
    assert str(found) == reason


def test_an_unreachable_registry_is_reported_and_nothing_is_kept(tools: Tools) -> None:
    tools.add("node", NODE)
    tools.add(
        "npm",
        """echo 'npm warn of something' >&2
echo 'npm error code ENOTFOUND' >&2
echo 'npm error syscall getaddrinfo' >&2
echo 'npm error request to https://example.invalid/kafkajs failed' >&2
exit 1""",
    )
    found = kafkajs()
    assert isinstance(found, Unavailable)
    assert str(found) == "npm failed: request to https://example.invalid/kafkajs failed"
    assert tools.kept() == []


def test_it_is_installed_once(tools: Tools) -> None:
    tools.add("node", NODE)
    tools.add("npm", f"echo install >>{tools.log}")
    for _ in range(2):
        kafkajs.cache_clear()
        found = kafkajs()
        assert isinstance(found, Driver)
        assert Path(found.command[1]).is_file()
    assert tools.log.read_text().split() == ["install"]


def test_the_lock_has_one_version_and_names_no_registry_but_the_public_one() -> None:
    package = json.loads((SOURCES / "kafkajs" / "package.json").read_text())
    lock = json.loads((SOURCES / "kafkajs" / "package-lock.json").read_text())
    locked = {name: found for name, found in lock["packages"].items() if name}
    assert package["dependencies"] == {"kafkajs": locked["node_modules/kafkajs"]["version"]}
    for found in locked.values():
        assert found["integrity"].startswith("sha512-")
        assert found.get("resolved", PUBLIC).startswith(PUBLIC)


@pytest.mark.skipif(shutil.which("node") is None, reason="node not found")
def test_the_program_is_correct_javascript() -> None:
    subprocess.run(["node", "--check", SOURCES / "kafkajs" / "main.js"], check=True)
