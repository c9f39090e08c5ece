"""The parts of Barnabas as the import contract orders them: their picture, and what each imports.

`python -m tests.support.parts` writes both into docs/architecture.md. The descriptions in its table
are written by hand and stay.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from typing import Final

from tests.support.documents import ROOT, SOURCE

PAGE: Final = ROOT / "docs" / "architecture.md"
PICTURE: Final = re.compile(r"(?<=```mermaid\n)flowchart TB\n.*?(?=```)", re.DOTALL)
ROW: Final = re.compile(r"^\| `(\w+)` \| (.+) \| (nothing of ours|`.+`) \|$", re.MULTILINE)


def layers() -> list[list[str]]:
    """The layers of the first contract, the highest first."""
    read = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = read["tool"]["importlinter"]["contracts"][0]
    return [layer.split(" | ") for layer in contract["layers"]]


def parts() -> list[str]:
    """Every part, the lowest first: each may import those before it."""
    return [part for layer in reversed(layers()) for part in layer]


def imported_by(part: str) -> str:
    """The parts that this one imports, as the table names them."""
    found = set()
    for path in (SOURCE / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module)
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    ours = {name.split(".")[1] for name in found if name.startswith("barnabas.")} - {part}
    return ", ".join(f"`{each}`" for each in parts() if each in ours) or "nothing of ours"


def picture() -> str:
    return "\n".join(_picture_lines()) + "\n"


def _picture_lines() -> Iterator[str]:
    yield "flowchart TB"
    for number, layer in enumerate(layers()):
        yield f'    subgraph layer{number}[" "]'
        yield "        direction LR"
        yield from (f"        {part}" for part in layer)
        yield "    end"
    yield from (f"    layer{number} --> layer{number + 1}" for number in range(len(layers()) - 1))


def written(page: str) -> str:
    """The page with the picture and the imports of today."""
    page = PICTURE.sub(lambda _: picture(), page)
    return ROW.sub(lambda row: f"| `{row[1]}` | {row[2]} | {imported_by(row[1])} |", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
