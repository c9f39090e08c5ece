"""A directory that stands for the root of a host: commands for `/etc` and `/opt` write below it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.documents import ROOT

# Where commands of the documents write, at the beginning of a path.
_WRITTEN: Final = re.compile(r"(?<![\w./-])/(?=(?:etc|opt|source|var)/|source\b)")
# The files of a new host that these commands read.
_ACCOUNTS: Final = ("passwd", "shadow", "group", "gshadow")
_UNITS: Final = "usr/lib/systemd/system"


class Host:
    """Runs commands as the documents show them, in the directory of the files for operators.

    `useradd` and `systemctl` are given the root by an option of their own; nothing is booted, so
    `--now` is left out. All else gets its paths below the root.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        etc = root / "etc"
        (etc / "systemd" / "system").mkdir(parents=True)
        for name in _ACCOUNTS:
            (etc / name).touch()
        for file in (Path("/etc/login.defs"), *Path("/", _UNITS).glob("*.target")):
            if file.exists():
                copy = self.path(file)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)

    def path(self, absolute: str | Path) -> Path:
        return self.root / str(absolute).lstrip("/")

    def here(self, text: str) -> str:
        """The text with its paths below the root."""
        return _WRITTEN.sub(f"{self.root}/", text)

    def command(self, line: str) -> str:
        program, _, rest = line.partition(" ")
        match program:
            case "useradd":
                return f"{_as_root()}useradd --prefix {self.root} {rest}"
            case "systemctl":
                return f"systemctl --root={self.root} {rest.replace('--now ', '')}"
            case _:
                return self.here(line)

    def run(self, line: str, **environment: str) -> str:
        """Run one line, all its commands, and return the output; it must succeed."""
        command = " && ".join(self.command(each.strip()) for each in line.split("&&"))
        ran = subprocess.run(
            ["bash", "-euc", command],
            cwd=ROOT / "deploy",
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", **environment},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        return ran.stdout

    def account(self, user: str) -> tuple[int, str]:
        """The id and the home directory of a user. Raises KeyError without one."""
        lines = [line.split(":") for line in self.path("/etc/passwd").read_text().splitlines()]
        return {name: (int(uid), home) for name, _, uid, _, _, home, _ in lines}[user]


def needs(*programs: str) -> None:
    """Skip the test if one of the programs is missing here, or may not be used."""
    for name in programs:
        if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"{name} is not installed")
    if "useradd" in programs and not _may_be_root():
        pytest.skip("only root, or a user who may have a user namespace, can add users")


def _as_root() -> str:
    """`useradd` gives files to root, also below another root."""
    return "" if os.geteuid() == 0 else "unshare --map-root-user "


def _may_be_root() -> bool:
    return subprocess.run(["bash", "-c", f"{_as_root()}true"], capture_output=True).returncode == 0
