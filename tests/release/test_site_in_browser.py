"""The documentation as a site in a real browser that reaches no other host: search and diagrams.

Builds the site by `make docs`, unless BARNABAS_SITE names one that is built.
"""

import contextlib
import functools
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.support.chromium import running_chromium
from tests.support.documents import ROOT, blocks, document

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(900)]

DIAGRAMS: Final = {
    name: len(blocks(document(f"docs/{name}.md"), "mermaid")) for name in ("architecture", "states")
}
# The site hides what it draws from scripts, and so from a test.
OPEN_SHADOWS: Final = """
    const attach = Element.prototype.attachShadow;
    Element.prototype.attachShadow = function (options) {
        return attach.call(this, {...options, mode: "open"});
    };
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the site."""
    folder = os.environ.get("BARNABAS_SITE")
    if folder is None:
        command = ["make", "docs"]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
        folder = str(ROOT / "site")
    handler: Any = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as chromium:
        yield chromium


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """A page that fails on any complaint, and on any request to another host."""
    complaints: list[str] = []

    def only_here(route: Route, request: Request) -> None:
        if request.url.startswith((f"{site}/", "data:", "blob:")):
            route.continue_()
        else:
            complaints.append(f"asks for {request.url}")
            route.abort()

    with contextlib.closing(browser.new_context(base_url=site)) as context:
        page = context.new_page()
        page.add_init_script(OPEN_SHADOWS)
        page.route("**/*", only_here)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
    assert complaints == []


@pytest.mark.parametrize("name", DIAGRAMS)
def test_every_diagram_is_drawn_without_another_host(page: Page, name: str) -> None:
    page.goto(f"/{name}/")
    drawn = page.locator("div.mermaid svg")
    expect(drawn).to_have_count(DIAGRAMS[name])
    assert page.locator("pre.mermaid").count() == 0
    for diagram in drawn.all():
        assert diagram.get_attribute("aria-roledescription") != "error"
        box = diagram.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 50


def test_only_pages_with_diagrams_load_their_library(page: Page) -> None:
    page.goto("/quickstart/")
    assert page.locator('script[src*="mermaid"]').count() == 0


def test_a_word_that_is_searched_for_leads_to_a_page_that_has_it(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox", name="Search").fill("min.insync.replicas")
    hit = page.get_by_role("option").first
    expect(hit).to_be_visible()
    target = hit.get_attribute("href")
    assert target is not None
    hit.click()
    expect(page).to_have_url(target)
    expect(page.get_by_role("article")).to_contain_text("min.insync.replicas")
