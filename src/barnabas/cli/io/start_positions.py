"""Where in a topic to begin and to stop reading, in kcat's words."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.show import parse_time


class Kind(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    FROM_END = "from end"
    SINCE = "since"


class Start(NamedTuple):
    """Where to begin; `value` is an offset, a distance from the end, or a timestamp in ms."""

    kind: Kind
    value: int = 0


class Positions(NamedTuple):
    """Where to begin in every partition, and the timestamp to stop at, not included."""

    start: Start = Start(Kind.BEGINNING)
    until_ms: int | None = None


_SMALLEST_MS: Final = 10**9  # in January 1970, before any record was written
_WORDS: Final = {
    "beginning": Kind.BEGINNING,
    "earliest": Kind.BEGINNING,
    "end": Kind.END,
    "latest": Kind.END,
}


def parse_positions(texts: Iterable[str]) -> Positions:
    """What all -o options together say. Raises Misused."""
    starts: list[Start] = []
    until_ms: list[int] = []
    for text in texts:
        if text.startswith("e@"):
            until_ms.append(parse_moment(text[2:], "-o e@"))
        else:
            starts.append(_parse_start(text))
    if len(starts) > 1 or len(until_ms) > 1:
        raise Misused("-o: only one place to begin and one e@ to stop can be given")
    return Positions(
        starts[0] if starts else Start(Kind.BEGINNING), until_ms[0] if until_ms else None
    )


def parse_moment(text: str, option: str) -> int:
    """A timestamp. Raises Misused for a number that nobody means as milliseconds, as a year is."""
    if text.isascii() and text.isdigit() and int(text) < _SMALLEST_MS:
        raise Misused(
            f"{option}{text}: a number is taken as milliseconds since 1970, and this one is too"
            " small; write a time as 2026-01-31T12:00:00Z"
        )
    return parse_time(text, option)


def _parse_start(text: str) -> Start:
    if text.startswith("s@"):
        return Start(Kind.SINCE, parse_moment(text[2:], "-o s@"))
    if text in _WORDS:
        return Start(_WORDS[text])
    if text == "stored":
        raise Misused("-o stored: consume keeps no offsets; begin at an offset or a time")
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise Misused(
            f"-o {text}: expected beginning, end, OFFSET, -COUNT (from the end), s@TIME or e@TIME,"
            " or earliest and latest for the first two"
        )
    offset = int(text)
    return Start(Kind.FROM_END, -offset) if text.startswith("-") else Start(Kind.OFFSET, offset)


def start_offset(
    start: Start, partition: str, earliest: int, latest: int, since: int | None
) -> int:
    """The offset to begin at in a partition that holds [earliest, latest).

    `since` is where the time of a SINCE begins, None if all records are older.

    Raises  CommandFailed if the offset asked for is not there
    """
    match start.kind:
        case Kind.BEGINNING:
            return earliest
        case Kind.END:
            return latest
        case Kind.FROM_END:
            return max(earliest, latest - start.value)
        case Kind.SINCE:
            return latest if since is None else since
        case Kind.OFFSET:
            if not earliest <= start.value <= latest:
                raise CommandFailed(
                    f"offset {start.value} is out of range: {partition} begins at {earliest}"
                    f" and ends at {latest}; -p chooses other partitions"
                )
            return start.value


def parse_partitions(texts: Iterable[str]) -> list[int]:
    """The partitions that all -p options together name, each a number, a list or a range."""
    chosen: list[int] = []
    for text in texts:
        for part in text.split(","):
            match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
            if match is None:
                raise Misused(f"-p {text}: expected partitions as 0 or 0,2 or 0-3")
            first = int(match[1])
            chosen += range(first, int(match[2] or first) + 1)
    return chosen
