"""Documents for tests: fenced blocks, tables, commands to run, names that a file defines."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "barnabas"
BIN: Final = Path(sys.executable).parent

# A program whose title is the file to save it as.
TITLED: Final = re.compile(r'^```python title="(\S+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def document(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(text: str, language: str) -> list[str]:
    return [block for tag, block in BLOCK.findall(text) if tag == language]


def block(text: str, language: str, mentioning: str) -> str:
    (found,) = (each for each in blocks(text, language) if mentioning in each)
    return found


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first heading this is."""
    _, _, rest = text.partition(f"| {heading} |")
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def defined_in(path: Path) -> frozenset[str]:
    """The functions and classes of a module, at any depth, and what module and classes assign."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Module | ast.ClassDef):
            found |= {target.id for each in node.body for target in _targets(each)}
    return frozenset(found)


def _targets(statement: ast.stmt) -> list[ast.Name]:
    assigned: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        assigned = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        assigned = [statement.target]
    return [target for target in assigned if isinstance(target, ast.Name)]


def misplaced(file: str, name: str) -> str | None:
    """The error in the claim that `file` defines `name`, and where the name is instead."""
    path = SOURCE / file
    if path.is_file() and name in defined_in(path):
        return None
    elsewhere = [
        other.relative_to(SOURCE).as_posix()
        for other in sorted(SOURCE.rglob("*.py"))
        if name in defined_in(other)
    ]
    return f"{file} does not define {name}; defined in: {', '.join(elsewhere[:5]) or 'no file'}"


def names_in(text: str) -> list[str]:
    """The words in code font that look like identifiers."""
    return [each for each in re.findall(r"`([^`]+)`", text) if re.fullmatch(r"[A-Za-z_]\w*", each)]


def occurs_in(name: str, path: Path) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", path.read_text()) is not None


class Running(NamedTuple):
    """A broker or cluster that was started as a document says, elsewhere than the document says."""

    bootstrap: str
    data: Path

    def here(self, text: str) -> str:
        """A block of the document for this broker and the environment of this test."""
        local = re.sub(r"127\.0\.0\.1:9092(,127\.0\.0\.1:909\d)*", self.bootstrap, text)
        local = local.replace(".venv/bin/", f"{BIN}/")
        return re.sub(r"\./barnabas-(data|cluster)", str(self.data), local)

    def run(self, *command: str) -> str:
        """Return what the command prints; it must succeed."""
        ran = subprocess.run(
            command,
            env={
                **os.environ,
                "BARNABAS_BOOTSTRAP": self.bootstrap,
                "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout
