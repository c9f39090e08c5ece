"""Options shared by commands, and parsers of their values."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_DIGITS_OF_A_LONG: Final = 19
_SMALLEST_MS: Final = 10**9  # in January 1970: no record is that old
_BROKER: Final = re.compile(r"(\w+://)?(\[[^\]\s]+\]|[^:\[\]\s]+)(:(?P<port>[0-9]{1,5}))?")

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        help="Bootstrap brokers of the cluster.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="A property of the client; repeatable."),
]


def check_topics(names: str | list[str] | None) -> str | list[str] | None:
    """Return the names. Raises Misused for an empty one, such as an unset shell variable."""
    if "" in ([names] if isinstance(names, str) else names or ()):
        raise Misused("topic name is empty")
    return names


Topic = Annotated[str, typer.Argument(metavar="TOPIC", callback=check_topics)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm(question: str, aborted: str) -> None:
    """Ask on a terminal. Raises CommandFailed unless the answer is yes."""
    if sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise CommandFailed(f"aborted; {aborted}")


def read_text(file: Path) -> str:
    """The text of a file that the user names. Raises CommandFailed."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file}: {getattr(error, 'strerror', 'not UTF-8 text')}") from None


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Parse KEY=VALUE pairs; a value may be empty and may contain `=`. Raises Misused."""
    parsed: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise Misused(f"{option} {pair}: expected KEY=VALUE")
        parsed[key.strip()] = value
    return parsed


def parse_bootstrap(bootstrap: str) -> str:
    """Return the list. Raises Misused unless each is HOST, HOST:PORT or [IPV6]:PORT."""
    for broker in bootstrap.split(","):
        match = _BROKER.fullmatch(broker.strip())
        if match is None or int(match["port"] or 1) not in range(1, 65536):
            raise Misused(f"-b {bootstrap}: invalid broker {broker!r}; expected HOST:PORT[,...]")
    return bootstrap


def parse_moment(text: str, option: str) -> int:
    """A timestamp in ms. Raises Misused for a number too small for milliseconds, such as a year."""
    if text.isascii() and text.isdigit() and int(text) < _SMALLEST_MS:
        raise Misused(
            f"{option}{text}: a number means milliseconds since 1970, and this one is too small;"
            " expected a time such as 2026-01-31T12:00:00Z"
        )
    return parse_time(text, option)


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970 from such a number or an ISO 8601 time, UTC by default.

    `option` is what precedes the time on the command line, for the error (Misused).
    """
    if text.isascii() and text.isdigit() and len(text) < _DIGITS_OF_A_LONG:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(
            f"{option}{text}: expected milliseconds since 1970, or 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
