"""Hooks of mkdocs: links out of docs/, and pages that the navigation does not name.

The documents are read on GitHub, too, where they link to source files and tests. On the site such
a link leads to the repository, whose name GitHub's workflow has in GITHUB_REPOSITORY. Elsewhere
only its text is left.
"""

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path("docs")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?:\.\./)+[^)\s#]+|[^)\s:#]+/?)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Put every decision into the navigation, and a page that it does not name into Reference."""
    pages = [path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))]
    decisions = [page for page in pages if page.startswith("decisions/")]
    named = str(config["nav"])
    unnamed = [page for page in pages if page not in decisions and f"'{page}'" not in named]
    for entry in config["nav"]:
        if "Decisions" in entry:
            entry["Decisions"] = decisions
        if "Reference" in entry:
            entry["Reference"] += unnamed
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    here = (DOCS / page.file.src_path).parent
    return LINK.sub(lambda link: _linked(link, here), markdown)


def _linked(link: re.Match[str], here: Path) -> str:
    is_image, text, target, _ = link.groups()
    path = Path(os.path.normpath(here / target))
    if path.is_relative_to(DOCS) and path.is_file():
        return link[0]
    if not path.exists():
        return link[0]  # mkdocs reports it
    repository = os.environ.get("GITHUB_REPOSITORY")
    if repository is None:
        return text
    kind = "raw" if is_image else "tree" if path.is_dir() else "blob"
    return f"{is_image}[{text}](https://github.com/{repository}/{kind}/main/{path})"
