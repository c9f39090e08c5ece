"""One line at the end of a run for each tool whose absence skipped tests, and how to get it."""

from collections import Counter
from collections.abc import Generator
from typing import Final

import pytest

# By a word of the reason: what to install, by the names of Debian's packages and of Homebrew.
HOW_TO_GET: Final = {
    "kcat": "apt-get install kcat, or brew install kcat",
    "java": "a JDK 17 or newer: apt-get install openjdk-17-jre-headless, or brew install openjdk",
    "compiler": "a C compiler: apt-get install gcc, or xcode-select --install",
    "node": "Node.js: apt-get install nodejs npm, or brew install node",
    "chromium": "apt-get install chromium, or brew install --cask chromium",
    "openssl": "apt-get install openssl, or brew install openssl",
    "useradd": "apt-get install passwd, on Linux",
    "systemctl": "apt-get install systemd, on Linux",
    "systemd-analyze": "apt-get install systemd, on Linux",
    "docker-compose": "apt-get install docker-compose, or Docker with its plugin compose",
    "hadolint": "make dist, on Linux",
}


@pytest.hookimpl(wrapper=True, tryfirst=True)  # below pytest's own list of what was skipped
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    yield
    skipped: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        tool = _tool(report)
        if tool is not None:
            skipped[tool] += 1
    for tool, count in sorted(skipped.items()):
        terminalreporter.write_line(
            f"skipped {count} tests, because {tool} is missing. To run them: {HOW_TO_GET[tool]}"
        )


def _tool(report: pytest.TestReport) -> str | None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return next((tool for tool in HOW_TO_GET if tool in reason.lower()), None)
