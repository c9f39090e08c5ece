"""The documentation as a site: every page has its place, every way of a reader is there."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from barnabas.cli.option_docs import options_page
from tests.support.documents import ROOT, document

# Pages that only the site has: .ci/docs_site.py makes them.
MADE = {"options.md", "changelog.md", "contributing.md"}
HOW_TO = {
    *("testing.md", "move-from-kafka.md", "operate.md", "security.md"),
    *("backup.md", "upgrade.md", "monitoring.md"),
}


def navigation() -> dict[str, list[str]]:
    """The pages of each part. What comes before the navigation names functions of Python."""
    _, nav, pages = document("mkdocs.yml").partition("\nnav:")
    config: dict[str, Any] = yaml.safe_load(nav + pages)
    parts: dict[str, Any] = {name: of for part in config["nav"] for name, of in part.items()}
    return {
        name: [page for entry in of for page in entry.values()] if isinstance(of, list) else [of]
        for name, of in parts.items()
    }


def site_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / ".ci" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation_once() -> None:
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    named = [page for part in navigation().values() for page in part]
    assert sorted(named) == sorted({p for p in pages if not p.startswith("decisions/")} | MADE)


def test_a_reader_finds_tutorial_how_to_reference_and_explanation() -> None:
    parts = navigation()
    assert list(parts) == ["Home", "Tutorial", "How to", "Reference", "Explanation", "Decisions"]
    assert set(parts["How to"]) >= HOW_TO


def test_the_navigation_gets_every_decision() -> None:
    config = site_builder().with_decisions(document("mkdocs.yml"))
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert re.findall(r"- (decisions/\S+)", config) == [f"decisions/{p.name}" for p in decisions]


def test_links_out_of_the_documents_lead_to_the_repository(monkeypatch: Any) -> None:
    builder = site_builder()
    monkeypatch.chdir(ROOT)

    def linked(text: str, page: str) -> str:
        return str(builder.LINK.sub(lambda link: builder.linked(link, Path(page)), text))

    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert linked("[x](../Makefile)", "docs/tour.md") == "x"
    assert linked("[x](tour.md#a)", "docs/index.md") == "[x](tour.md#a)"
    assert linked("[x](docs/tour.md)", "CHANGELOG.md") == "[x](tour.md)"
    assert linked("[x](../CHANGELOG.md)", "docs/upgrade.md") == "[x](changelog.md)"
    unit = linked("[x](../deploy/barnabas.service)", "docs/operate.md")
    assert unit == "[x](deploy/barnabas.service)"
    monkeypatch.setenv("GITHUB_REPOSITORY", "a/b")
    assert linked("[x](../src)", "docs/a.md") == "[x](https://github.com/a/b/tree/main/src)"


def test_the_reference_has_the_help_of_every_command() -> None:
    page = options_page()
    assert "\n## barnabas topics create\n" in page
    assert "--replication-factor" in page
