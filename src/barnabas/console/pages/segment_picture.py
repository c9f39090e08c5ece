"""The segments of a partition in data directories, with their indexes, as a picture.

A segment is as wide as its log is large. Below it each entry of the offset index is drawn where it
leads, its position in the log, and each entry of the time index by its offset.
"""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.cli.log.log_files import SEGMENT_FILE
from barnabas.log.segment.index import OffsetIndex, TimeIndex

PICTURE_WIDTH: Final = 1_000
_NARROWEST: Final = 6.0
_ENTRIES: Final = 600  # of a directory's indexes that are drawn: of more, evenly chosen ones


class DrawnSegment(NamedTuple):
    """A segment: the size of its log, its place in the picture, and its indexes."""

    base_offset: int
    log: int
    x: float
    width: float
    by_offset: "DrawnIndex"
    by_time: "DrawnIndex"


class DrawnIndex(NamedTuple):
    """The number of entries of an index, and the places of some in the picture."""

    entries: int
    places: tuple[float, ...]


def find_segments(data: tuple[Path, ...], at: TopicPartition) -> dict[str, list[DrawnSegment]]:
    """The segments of a partition by its directory, below those that the console was given."""
    found = {}
    for directory in sorted(path for root in data for path in _directories(root, str(at))):
        logs: dict[int, int] = {}
        for path in directory.iterdir():
            if (match := SEGMENT_FILE.fullmatch(path.name)) and match[2] == "log":
                with contextlib.suppress(FileNotFoundError):  # retention has deleted it
                    logs[int(match[1])] = path.stat().st_size
        if logs:
            found[str(directory)] = list(_placed(directory, sorted(logs.items())))
    return found


def _directories(root: Path, name: str) -> list[Path]:
    """A log directory, or a directory of `barnabas cluster` with one for each broker."""
    patterns = (name, f"*/{name}", f"*/*/{name}")
    return [path for pattern in patterns for path in root.glob(pattern) if path.is_dir()]


def _placed(directory: Path, logs: list[tuple[int, int]]) -> Iterator[DrawnSegment]:
    room = max(0.0, PICTURE_WIDTH - _NARROWEST * len(logs))
    total = sum(size for _, size in logs) or 1
    most = max(1, _ENTRIES // len(logs))
    x = 0.0
    bases: list[int | None] = [base for base, _ in logs[1:]]
    for (base, size), following in zip(logs, [*bases, None], strict=True):
        width = _NARROWEST + size * room / total
        name, inner = str(directory / f"{base:020d}"), width - 2
        by_offset, positions = _entries(Path(f"{name}.index"), OffsetIndex.FORMAT, most)
        by_time, offsets = _entries(Path(f"{name}.timeindex"), TimeIndex.FORMAT, most)
        last = following - base if following else max([*offsets, 1])
        yield DrawnSegment(
            base,
            size,
            round(x, 2),
            round(inner, 2),
            DrawnIndex(by_offset, _scaled(x, inner, positions, size)),
            DrawnIndex(by_time, _scaled(x, inner, offsets, last)),
        )
        x += width


def _entries(path: Path, form: Struct, most: int) -> tuple[int, list[int]]:
    """The number of entries of an index, and the second field of some, evenly chosen.

    The index of an active segment is as large as it may get; zeros follow its entries.
    """

    def read(n: int) -> tuple[int, int]:
        file.seek(n * form.size)
        first, second = form.unpack(file.read(form.size))
        return first, second

    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END) // form.size
            count = bisect_left(range(size), True, key=lambda n: not read(n)[0])
            return count, [read(n)[1] for n in range(0, count, -(-count // most) or 1)]
    except (OSError, StructError):  # deleted or cut short meanwhile
        return 0, []


def _scaled(x: float, width: float, values: list[int], whole: int) -> tuple[float, ...]:
    return tuple(round(x + width * min(1.0, each / max(1, whole)), 1) for each in values)
