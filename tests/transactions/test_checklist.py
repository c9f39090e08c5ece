"""The checklist of docs/transactions.md: every line names code and tests that exist."""

import re

import pytest

from tests.support.documents import ROOT

LINES = 46
ROW = re.compile(r"^\| (T\d+) \|.*$", re.MULTILINE)
KEPT_IN = re.compile(r"`([a-z_/]+\.py)`")
TESTED_IN = re.compile(r"\]\(\.\./(tests/[a-z_/]+\.py)\)")


def rows() -> dict[str, str]:
    page = (ROOT / "docs" / "transactions.md").read_text("utf-8")
    return {found.group(1): found.group(0) for found in ROW.finditer(page)}


def test_every_line_of_the_checklist_has_a_row() -> None:
    assert list(rows()) == [f"T{n}" for n in range(1, LINES + 1)]


@pytest.mark.parametrize("line", [f"T{n}" for n in range(1, LINES + 1)])
def test_a_line_names_its_code_and_tests_that_name_it(line: str) -> None:
    row = rows()[line]
    for path in KEPT_IN.findall(row):
        assert (ROOT / "src" / "barnabas" / path).is_file(), path
    tests = [(ROOT / path).read_text("utf-8") for path in TESTED_IN.findall(row)]
    named = re.compile(rf"\b{line}\b|_{line.lower()}_")
    assert any(named.search(text) for text in tests), f"no test of {line} names it"
