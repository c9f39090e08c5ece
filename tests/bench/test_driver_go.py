"""The franz-go driver: the contract, and the reason if it is unavailable."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.bench.compare.client_driver import Driver, Unavailable
from barnabas.bench.compare.driver_cache import SOURCES
from barnabas.bench.compare.driver_go import franz_go
from tests.bench.driver_contract import DriverContract, Tools, available


@pytest.fixture(scope="module")
def driver() -> Driver:
    return available(franz_go())


@pytest.mark.long  # Go compiles for a minute where nothing of it is in its caches
@pytest.mark.timeout(600)
class TestFranzGo(DriverContract):
    """All of the contract."""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tools]:
    franz_go.cache_clear()
    yield Tools(tmp_path, monkeypatch)
    franz_go.cache_clear()


def test_without_go_one_line_says_so(tools: Tools) -> None:
    found = franz_go()
    assert isinstance(found, Unavailable)
    assert str(found) == "go not found"


def test_a_failed_fetch_is_reported_and_nothing_is_kept(tools: Tools) -> None:
    tools.add(
        "go",
        """[ "$1" = version ] && exit 0
echo 'go: downloading github.com/twmb/franz-go v1.0.0' >&2
echo 'main.go:1:2: github.com/twmb/franz-go@v1.0.0: no such host' >&2
echo 'main.go:3:4: more of it' >&2
exit 1""",
    )
    found = franz_go()
    assert isinstance(found, Unavailable)
    assert str(found) == "go failed: main.go:1:2: github.com/twmb/franz-go@v1.0.0: no such host"
    assert tools.kept() == []


def test_it_is_built_once_for_each_version_of_go(tools: Tools) -> None:
    commands = set()
    for version in ("1.26.0", "1.26.0", "1.26.1"):
        build = f"echo build >>{tools.log}; echo >driver"
        tools.add("go", f'if [ "$1" = version ]; then echo go{version}; else {build}; fi')
        franz_go.cache_clear()
        found = franz_go()
        assert isinstance(found, Driver)
        assert Path(found.command[0]).is_file()
        commands.add(found.command)
    assert len(commands) == len(tools.kept()) == 2
    assert tools.log.read_text().split() == ["build"] * 2


def test_the_version_is_that_of_the_module(tools: Tools) -> None:
    tools.add("go", '[ "$1" = version ] || echo >driver')
    found = franz_go()
    assert isinstance(found, Driver)
    assert f"franz-go v{found.version}\n" in (SOURCES / "franz_go" / "go.mod").read_text()


@pytest.mark.skipif(shutil.which("gofmt") is None, reason="there is no gofmt")
def test_the_program_has_the_format_of_gofmt() -> None:
    command = ["gofmt", "-l", str(SOURCES / "franz_go")]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b""
