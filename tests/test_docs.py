"""The documents tell the truth where a machine can see it: links, files, names, layers, targets."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "barnabas"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\| \d+ \| .+ \| `(\S+\.py)` \| `(\w+)` \|$", re.MULTILINE)
PART = re.compile(r"^\| `(\w+)` \| .+ \| (nothing of ours|`.+`) \|$", re.MULTILINE)
# A file of ours in backticks, below the source or the root.
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|c|toml))`")

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
def test_links_lead_to_what_is_there(document: Path) -> None:
    for target in LINK.findall(FENCED.sub("", document.read_text())):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@each_document
def test_files_named_are_there(document: Path) -> None:
    for name in FILE.findall(FENCED.sub("", document.read_text())):
        assert (ROOT / name).exists() or (SOURCE / name).exists(), name


@each_document
def test_a_document_begins_with_its_one_title(document: Path) -> None:
    lines = FENCED.sub("", document.read_text()).splitlines()
    assert lines[0].startswith("# ")
    assert [line for line in lines if line.startswith("# ")] == lines[:1]


# -- architecture ------------------------------------------------------------


@cache
def defined_in(path: Path) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, kinds))


def test_each_step_of_a_request_is_where_the_architecture_says() -> None:
    steps = STEP.findall(ARCHITECTURE)
    assert len(steps) == len(re.findall(r"^\| \d+ \|", ARCHITECTURE, re.MULTILINE))
    for file, name in steps:
        assert name in defined_in(SOURCE / file), f"{file} has no {name}"


def test_the_architecture_begins_with_a_produce() -> None:
    headings = re.findall(r"^## (.+)$", ARCHITECTURE, re.MULTILINE)
    assert headings[0] == "What happens when a Produce arrives"


def parts_imported_by(part: str) -> set[str]:
    found = set()
    for path in (SOURCE / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module)
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    ours = {name.split(".")[1] for name in found if name.startswith("barnabas.")}
    return ours - {part}


def test_the_table_of_parts_has_what_each_imports() -> None:
    told = {
        part: set(re.findall(r"`(\w+)`", imports)) for part, imports in PART.findall(ARCHITECTURE)
    }
    assert told == {part: parts_imported_by(part) for part in told}


def test_the_table_of_parts_is_the_order_of_the_layers() -> None:
    contract, *_ = pyproject()["tool"]["importlinter"]["contracts"]
    layers = [part for layer in reversed(contract["layers"]) for part in layer.split(" | ")]
    assert [part for part, _ in PART.findall(ARCHITECTURE)] == layers
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == set(layers)


# -- decisions, changes, contributing ----------------------------------------


def test_decisions_are_numbered_in_a_row() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    for number, path in zip(numbers, DECISIONS, strict=True):
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
        assert path.read_text().startswith(f"# {number}. ")


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_short_and_tells_its_price(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Choice", "Price"]
    assert len(text.splitlines()) <= 40


def test_the_changelog_knows_the_version_of_the_package() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\]( - \S+)?$", text, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    assert pyproject()["project"]["version"] in [version for version, _ in versions]


def test_what_contributors_are_told_to_run_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"`make(?: [A-Z]+=\S+)? ([a-z-]+)`", CONTRIBUTING)
    assert len(set(targets)) > 5
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for file in re.findall(r"pytest (tests/\S+\.py)", CONTRIBUTING):
        assert (ROOT / file).exists()


def test_ci_runs_what_contributors_are_told() -> None:
    told = re.search(r"^\| what CI runs \| `\.ci/run`: (.+) \|$", CONTRIBUTING, re.MULTILINE)
    assert told is not None
    run = re.findall(r"^make \S+$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert re.findall(r"`(make \S+)`", told[1]) == run
