"""Start and stop positions of `consume`, in kcat's notation."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import parse_moment


class StartKind(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    FROM_END = "from end"
    SINCE = "since"


class StartPosition(NamedTuple):
    """Where to start; `value` is an offset, a distance from the end, or a timestamp in ms."""

    kind: StartKind
    value: int = 0


class Positions(NamedTuple):
    """Where to start in every partition, and the timestamp to stop at (exclusive)."""

    start: StartPosition = StartPosition(StartKind.BEGINNING)
    until_ms: int | None = None


_WORDS: Final = {
    "beginning": StartKind.BEGINNING,
    "earliest": StartKind.BEGINNING,
    "end": StartKind.END,
    "latest": StartKind.END,
}


def parse_positions(texts: Iterable[str]) -> Positions:
    """Parse all -o options. Raises Misused."""
    starts: list[StartPosition] = []
    until_ms: list[int] = []
    for text in texts:
        if text.startswith("e@"):
            until_ms.append(parse_moment(text[2:], "-o e@"))
        else:
            starts.append(_parse_start(text))
    if len(starts) > 1 or len(until_ms) > 1:
        raise Misused("-o: specify at most one start position and one e@TIME")
    return Positions(
        starts[0] if starts else StartPosition(StartKind.BEGINNING),
        until_ms[0] if until_ms else None,
    )


def _parse_start(text: str) -> StartPosition:
    if text.startswith("s@"):
        return StartPosition(StartKind.SINCE, parse_moment(text[2:], "-o s@"))
    if text in _WORDS:
        return StartPosition(_WORDS[text])
    if text == "stored":
        raise Misused("-o stored: consume commits no offsets; specify an offset or a time")
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise Misused(
            f"-o {text}: expected beginning (earliest), end (latest), OFFSET, -COUNT (from the"
            " end), s@TIME or e@TIME"
        )
    offset = int(text)
    return (
        StartPosition(StartKind.FROM_END, -offset)
        if text.startswith("-")
        else StartPosition(StartKind.OFFSET, offset)
    )


def start_offset(
    start: StartPosition, partition: str, earliest: int, latest: int, since: int | None
) -> int:
    """The start offset in a partition that holds [earliest, latest).

    `since` is the first offset at or after the time of a SINCE; None if all records are older.

    Raises  CommandFailed if the offset is out of range
    """
    match start.kind:
        case StartKind.BEGINNING:
            return earliest
        case StartKind.END:
            return latest
        case StartKind.FROM_END:
            return max(earliest, latest - start.value)
        case StartKind.SINCE:
            return latest if since is None else since
        case StartKind.OFFSET:
            if not earliest <= start.value <= latest:
                raise CommandFailed(
                    f"offset {start.value} is out of range: {partition} has offsets {earliest}"
                    f" to {latest}; select partitions with -p"
                )
            return start.value


def parse_partitions(texts: Iterable[str]) -> list[int]:
    """Parse all -p options, each a partition, a list or a range. Raises Misused."""
    chosen: list[int] = []
    for text in texts:
        for part in text.split(","):
            match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
            if match is None:
                raise Misused(f"-p {text}: expected partitions such as 0 or 0,2 or 0-3")
            first = int(match[1])
            chosen += range(first, int(match[2] or first) + 1)
    return chosen
