"""A console in its own process, and pages of a real browser that fail on any complaint."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from tests.support.broker import BrokerProcess
from tests.support.chromium import running_chromium
from tests.support.waiting import until

DESKTOP: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
NOT_WIDER: Final = "document.documentElement.scrollWidth <= innerWidth"
SCREENSHOTS: Final = Path(__file__).parent.parent.parent / "docs" / "console"
_STOPPED_WITHIN_S: Final = 20.0


class ConsoleProcess:
    """`barnabas console` on a free port."""

    def __init__(self, bootstrap: str, *options: str, password: str | None = None) -> None:
        command = [sys.executable, "-m", "barnabas.cli.main", "console", "-b", bootstrap]
        environment = dict(os.environ)
        if password is not None:
            environment["BARNABAS_CONSOLE_PASSWORD"] = password
        self._process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready "), line
        self.url = line.split()[-1]

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """It must end by itself on SIGTERM, with exit code 0."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(_STOPPED_WITHIN_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        assert code == 0


@contextlib.contextmanager
def running_console(
    bootstrap: str, *options: str, password: str | None = None
) -> Iterator[ConsoleProcess]:
    console = ConsoleProcess(bootstrap, *options, password=password)
    try:
        yield console
    finally:
        console.close()


# Playwright's loop runs as long as the browser does: no other test could run a loop meanwhile.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def console(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console of the shared broker, which may write."""
    folder = tmp_path_factory.mktemp("console")
    audit = f"--audit-log={folder / 'audit.jsonl'}"
    options = ("--write", audit, f"--data={broker.data}", f"--pipelines={folder}")
    with running_console(broker.bootstrap, *options) as process:
        yield process


class Visitor:
    """A person with a browser: every complaint and every request to another host is kept."""

    def __init__(self, context: BrowserContext, console: ConsoleProcess) -> None:
        self.page: Page = context.new_page()
        self.url = console.url
        self.complaints: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _on_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.complaints.append(f"request to {request.url}")

    def open(self, path: str, heading: str) -> Page:
        self.page.goto(f"{self.url}{path}", wait_until="domcontentloaded")
        self.page.get_by_role("heading", level=1, name=heading).wait_for()
        return self.page

    def check(self) -> None:
        """No complaint of the browser, none of axe-core, and nothing wider than the window."""
        assert self.complaints == []
        assert self.page.evaluate(NOT_WIDER)
        results = Axe().run(self.page)
        assert results.violations_count == 0, results.generate_report()

    def check_all_looks(self) -> None:
        """The same at both sizes and in both themes; the page looks as before afterwards."""
        size, dark = self.page.viewport_size, "matchMedia('(prefers-color-scheme: dark)').matches"
        assert size is not None
        was_dark = self.page.evaluate(dark)
        for width, height in (DESKTOP.values(), PHONE.values()):
            self.page.set_viewport_size({"width": width, "height": height})
            for is_dark in (False, True):
                self.page.emulate_media(color_scheme="dark" if is_dark else "light")
                # Charts follow the window's size.
                until(lambda: self.page.evaluate(NOT_WIDER), "a page as wide as the window")
                self.check()
        self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme="dark" if was_dark else "light")

    def confirm(self, verb: str) -> None:
        """Confirm a change on the page that says what it will do."""
        self.page.get_by_text("This will happen:").wait_for()
        self.page.get_by_role("button", name=verb, exact=True).click()


Look = tuple[dict[str, int], bool]
# Every combination of size and theme; the first is part of every run.
LOOKS: Final = [
    pytest.param((DESKTOP, False), id="1280-light"),
    pytest.param((DESKTOP, True), id="1280-dark", marks=pytest.mark.long),
    pytest.param((PHONE, False), id="390-light", marks=pytest.mark.long),
    pytest.param((PHONE, True), id="390-dark", marks=pytest.mark.long),
]


@pytest.fixture
def look() -> Look:
    """The size and the theme of a person who names none: a module may have LOOKS instead."""
    return DESKTOP, False


@pytest.fixture
def visit(
    chromium: Browser, console: ConsoleProcess, look: Look
) -> Iterator[Callable[..., Visitor]]:
    """`visit()`, or `visit(PHONE, dark=True)`: a person at the shared console."""
    with contextlib.ExitStack() as contexts:

        def visit(
            size: dict[str, int] = look[0],
            *,
            dark: bool = look[1],
            at: ConsoleProcess | None = None,
        ) -> Visitor:
            context = chromium.new_context(
                viewport={"width": size["width"], "height": size["height"]},
                color_scheme="dark" if dark else "light",
                reduced_motion="reduce",
            )
            context.set_default_timeout(15_000)
            contexts.callback(context.close)
            return Visitor(context, at or console)

        yield visit
