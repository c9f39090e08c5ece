"""Fenced blocks of the README and of all pages, and the command lines among them."""

import re
import textwrap
from typing import Final, NamedTuple

from tests.support.documents import ROOT

FENCE: Final = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# Pages whose blocks are all run by one test.
RUN_BY: Final = {
    "README.md": "tests/test_readme.py",
    "docs/tour.md": "tests/test_tour.py",
    "docs/testing.md": "tests/testing/test_docs_example.py",
    "docs/states.md": "tests/server/test_state_diagrams.py",
    "docs/architecture.md": "tests/test_architecture.py",
}


class Block(NamedTuple):
    page: str
    language: str
    text: str


def _blocks() -> list[Block]:
    return [
        Block(name, info.split()[0] if info else "", textwrap.dedent(text))
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if (name := path.relative_to(ROOT).as_posix()) not in RUN_BY
        for _, info, text in FENCE.findall(path.read_text())
    ]


# Of the pages that no other test runs.
BLOCKS: Final = _blocks()


def of(*languages: str, page: str | None = None) -> list[Block]:
    return [each for each in BLOCKS if each.language in languages and page in (None, each.page)]


def commands(page: str | None = None) -> list[str]:
    """Every command line, once: without comments, and with `\\` joined."""
    lines = [
        re.split(r"\s+#", line)[0].rstrip(" &")
        for block in of("sh", page=page)
        for line in re.sub(r" *\\\n *", " ", block.text).splitlines()
    ]
    return list(dict.fromkeys(line for line in lines if line))
