"""The checklist of docs/security.md: every line has a test of its id, and the tests exist."""

import re
from functools import cache
from pathlib import Path

from tests.support.documents import ROOT

LINE = re.compile(r"^\| (S\d+) \| .+ \| (`.+`) \|$", re.MULTILINE)
REFUSED = re.compile(r"^\| [^|]+ \| `(test_\w+)`", re.MULTILINE)
FUNCTION = re.compile(r"^def (test_\w+)", re.MULTILINE)


def page() -> str:
    return (ROOT / "docs" / "security.md").read_text("utf-8")


@cache
def names_in(file: Path) -> list[str]:
    return FUNCTION.findall(file.read_text("utf-8"))


def test_every_line_names_files_with_names_in_its_id() -> None:
    lines = LINE.findall(page())
    assert [line_id for line_id, _ in lines] == [f"S{number}" for number in range(1, 45)]
    for line_id, cell in lines:
        for file in re.findall("`([^`]+)`", cell):
            names = names_in(ROOT / file)
            assert any(f"_{line_id.lower()}_" in name for name in names), (line_id, file)


def test_every_refusal_names_a_test() -> None:
    known = {name for file in (ROOT / "tests").rglob("test_*.py") for name in names_in(file)}
    named = REFUSED.findall(page())
    assert len(named) > 10
    assert set(named) <= known
