"""Builds the documentation as a site: `make docs`.

The pages are those that GitHub shows, with these differences. A link to a source file leads to the
repository, whose name GitHub's workflow has in GITHUB_REPOSITORY; elsewhere only its text is left.
The files for operators are on the site. The navigation has every decision. The reference has a page
with the help of every command.

The library that draws the diagrams is served with the site: a reader's browser asks no other host.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.request import urlopen

DOCS = Path("docs")
BUILD = Path("build/docs")
SITE = Path("site")
DEPLOY = Path("deploy")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?:\.\./)+[^)\s#]+|[^)\s:#]+/?)(#[^)\s]*)?\)")
# Documents outside of docs/ that are pages of the site.
PAGES = {Path("CHANGELOG.md"): "changelog.md", Path("CONTRIBUTING.md"): "contributing.md"}
MERMAID = "https://registry.npmjs.org/mermaid/-/mermaid-11.17.2.tgz"
MERMAID_SHA512 = (
    "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
)
MERMAID_FILES = {
    "package/dist/mermaid.min.js": "mermaid.min.js",
    "package/LICENSE": "mermaid.LICENSE",
}
CDN = "no Mermaid: readers' browsers load what draws the diagrams from a public server"
# Zensical's own script, which loads Mermaid from elsewhere unless a page has it already.
BUNDLE = re.compile(r'<script src="([./]*assets/javascripts/)bundle\.[^"]*"></script>')


def main() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(DOCS, BUILD / "docs")
    shutil.copytree(DEPLOY, BUILD / "docs" / DEPLOY)
    for page in DOCS.rglob("*.md"):
        text = page.read_text()
        to = BUILD / "docs" / page.relative_to(DOCS)
        to.write_text(LINK.sub(lambda link, here=page: linked(link, here), text))
    for page, name in PAGES.items():
        text = LINK.sub(lambda link, here=page: linked(link, here), page.read_text())
        (BUILD / "docs" / name).write_text(text)
    shutil.copy("build/options.md", BUILD / "docs")
    config = BUILD / "mkdocs.yml"
    config.write_text(with_decisions(Path("mkdocs.yml").read_text()))
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run([zensical, "build", "--strict", "-f", config]).returncode
    for page in sorted((BUILD / "site").rglob("*.html")):
        if "<p>```" in page.read_text():
            print(f"{page}: a block of code is shown as text")
            built = 1
    if (package := mermaid()) is None:
        print(CDN)
    else:
        add_mermaid(package, BUILD / "site")
    if built == 0:
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.move(BUILD / "site", SITE)
    return built


def with_decisions(config: str) -> str:
    """The configuration, with every decision where it has one entry for all."""
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob("decisions/*.md"))
    entries = "".join(f"      - {page}\n" for page in pages)
    return config.replace("  - Decisions: []\n", f"  - Decisions:\n{entries}")


def mermaid() -> Path | None:
    """The package of the library, fetched once; None where it cannot be had."""
    package = BUILD.parent / MERMAID.rpartition("/")[2]
    if not package.exists():
        try:
            with urlopen(MERMAID, timeout=60) as response:
                fetched = response.read()
        except OSError as error:
            print(f"{MERMAID}: {error}")
            return None
        checksum = base64.b64encode(hashlib.sha512(fetched).digest()).decode()
        if checksum != MERMAID_SHA512:
            raise SystemExit(f"{MERMAID} has another checksum than MERMAID_SHA512: {checksum}")
        package.write_bytes(fetched)
    return package


def add_mermaid(package: Path, site: Path) -> None:
    """Put the library and its license into the site, and refer to it in the pages of diagrams."""
    with tarfile.open(package) as files:
        for name, here in MERMAID_FILES.items():
            file = files.extractfile(name)
            assert file is not None
            (site / "assets" / "javascripts" / here).write_bytes(file.read())
    for page in site.rglob("*.html"):
        if 'class="mermaid"' in page.read_text():
            page.write_text(with_mermaid(page.read_text()))


def with_mermaid(page: str) -> str:
    """The page of a diagram, with a script that the site has before the one that looks for it."""
    bundle = BUNDLE.search(page)
    assert bundle is not None, "Zensical's script has another name"
    script = f'<script src="{bundle[1]}mermaid.min.js"></script>'
    return page.replace(bundle[0], script + bundle[0])


def linked(link: re.Match[str], page: Path) -> str:
    """A link of `page` as it is on the site."""
    is_image, text, target, anchor = link.groups()
    path = Path(os.path.normpath(page.parent / target))
    if path in PAGES:
        name = os.path.relpath(DOCS / PAGES[path], page.parent if page not in PAGES else DOCS)
        return f"[{text}]({name}{anchor or ''})"
    on_site = DOCS / path if path.is_relative_to(DEPLOY) else path
    if on_site.is_relative_to(DOCS) and path.is_file():
        name = os.path.relpath(on_site, page.parent if page not in PAGES else DOCS)
        return f"{is_image}[{text}]({name}{anchor or ''})"
    if not path.exists():
        return link[0]  # Zensical reports it
    repository = os.environ.get("GITHUB_REPOSITORY")
    if repository is None:
        return text
    kind = "raw" if is_image else "tree" if path.is_dir() else "blob"
    return f"{is_image}[{text}](https://github.com/{repository}/{kind}/main/{path})"


if __name__ == "__main__":
    sys.exit(main())
