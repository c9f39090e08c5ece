"""The JavaScript client kafkajs, installed with the npm of this machine."""

import json
from functools import cache
from pathlib import Path
from typing import Final

from barnabas.bench.compare.client_driver import Driver, Unavailable
from barnabas.bench.compare.driver_cache import SOURCES, built, found_tool, output

_NAME: Final = "kafkajs"
_MIN_NODE: Final = 18
# One retry, soon: by default npm tries for more than a minute where there is no network.
_INSTALL: Final = (
    "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier",
    "--fetch-retries=1", "--fetch-retry-mintimeout=1000",
)  # fmt: skip
_NOT_THE_REASON: Final = ("code ", "errno ", "syscall ", "type ", "network ")


@cache
def kafkajs() -> Driver | Unavailable:
    """The driver, or why it is unavailable; installs it at most once."""
    try:
        node, npm = found_tool("node"), found_tool("npm")
        _check_version(output([node, "--version"], str.strip, SOURCES))
        folder = built(_NAME, "", lambda copy: _install(npm, copy))
    except Unavailable as reason:
        return reason
    return Driver("kafkajs", (node, str(folder / "main.js")), _version())


def _check_version(said: str) -> None:
    major = said.strip().removeprefix("v").partition(".")[0]
    if not major.isdecimal() or int(major) < _MIN_NODE:
        raise Unavailable(f"node is older than {_MIN_NODE}")


def _install(npm: str, folder: Path) -> None:
    output([npm, *_INSTALL], _reason, folder)


def _reason(said: str) -> str:
    """The first line of npm's errors that is a sentence."""
    lines = [
        line.partition("npm error")[2] or line.partition("npm ERR!")[2]
        for line in said.splitlines()
    ]
    told = [line.strip() for line in lines if line.strip()]
    return next((line for line in told if not line.startswith(_NOT_THE_REASON)), "")


def _version() -> str:
    lock = json.loads((SOURCES / _NAME / "package-lock.json").read_text())
    version: str = lock["packages"]["node_modules/kafkajs"]["version"]
    return version
