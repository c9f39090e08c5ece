"""All documents: links and files exist, decisions have one form, the changelog has the version."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import FENCED, ROOT, SOURCE

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# A file of ours in backticks, below the source or the root.
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|pyx|md|c|toml))`")

each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def anchors(document: Path) -> Iterator[str]:
    """The headings of a document, as GitHub links to them."""
    for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", document.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@each_document
def test_every_link_has_a_target(document: Path) -> None:
    for target in LINK.findall(FENCED.sub("", document.read_text())):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@each_document
def test_every_file_named_exists(document: Path) -> None:
    for name in FILE.findall(FENCED.sub("", document.read_text())):
        assert (ROOT / name).exists() or (SOURCE / name).exists(), name


@each_document
def test_a_document_begins_with_its_one_title(document: Path) -> None:
    lines = FENCED.sub("", document.read_text()).splitlines()
    assert lines[0].startswith("# ")
    assert [line for line in lines if line.startswith("# ")] == lines[:1]


# -- decisions, changes ------------------------------------------------------


def test_decisions_are_numbered_in_a_row() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    for number, path in zip(numbers, DECISIONS, strict=True):
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
        assert path.read_text().startswith(f"# {number}. ")


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_short_and_names_its_price(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Choice", "Price"]
    assert len(text.splitlines()) <= 40


def test_the_changelog_knows_the_version_of_the_package() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\]( - \S+)?$", text, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    assert pyproject()["project"]["version"] in [version for version, _ in versions]
