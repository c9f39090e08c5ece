"""CONTRIBUTING.md names files, identifiers, targets and modules that exist."""

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.documents import FENCED, ROOT, SOURCE, document, names_in, occurs_in

PAGE = document("CONTRIBUTING.md")
PROSE = FENCED.sub("", PAGE)
LINKED = re.compile(r"\]\(((?!https?:)[^)\s#]+)\)")
IN_CODE_FONT = re.compile(r"`((?:[\w.-]+/)+[\w.-]*)`")


def passages() -> Iterator[str]:
    """Paragraphs, items of lists and rows of tables: a name belongs to the files in its own."""
    yield from re.split(r"\n\n|\n(?=- |\d+\. |\| )", PROSE)


def files_in(passage: str) -> list[Path]:
    return [ROOT / path for path in (*LINKED.findall(passage), *IN_CODE_FONT.findall(passage))]


@cache
def all_code() -> str:
    return "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))


def test_every_file_and_directory_named_exists() -> None:
    named = [path for passage in passages() for path in files_in(passage)]
    assert len(named) > 20
    assert [path for path in named if not path.exists()] == []


def test_every_name_is_in_the_file_beside_it() -> None:
    wrong = []
    for passage in passages():
        beside = [path for path in files_in(passage) if path.suffix == ".py"]
        for name in names_in(passage):
            found = (
                any(occurs_in(name, path) for path in beside)
                if beside
                else re.search(rf"\b{name}" + ("" if name.endswith("_") else r"\b"), all_code())
            )
            if not found:
                wrong.append(f"{name} is not in {[path.name for path in beside] or 'src'}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_names_that_an_api_needs_are_checked() -> None:
    checked = {name for passage in passages() for name in names_in(passage)}
    assert {"ApiKey", "APIS", "LOADED_WHEN_ASKED", "handle"} <= checked


def test_every_target_and_test_to_run_exists() -> None:
    makefile = document("Makefile")
    targets = re.findall(r"`make(?: [A-Z]+=\S+)? ([a-z-]+)`", PAGE)
    assert len(set(targets)) > 5
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for file in re.findall(r"pytest (tests/\S+\.py)", PAGE):
        assert (ROOT / file).exists()


def test_every_module_to_run_exists() -> None:
    modules = re.findall(r"`python -m ([\w.]+)", PAGE)
    assert len(modules) >= 4
    for module in modules:
        assert importlib.util.find_spec(module) is not None, module


def test_ci_runs_what_contributors_run() -> None:
    documented = re.search(r"^\| what CI runs \| `\.ci/run`: (.+) \|$", PAGE, re.MULTILINE)
    assert documented is not None
    run = re.findall(r"^make \S+", document(".ci/run"), re.MULTILINE)
    assert re.findall(r"`(make \S+)`", documented[1]) == run
