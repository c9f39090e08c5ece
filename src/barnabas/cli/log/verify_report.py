"""Problems found by `log verify`, and the totals of what it read."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from barnabas.cli.log.log_files import explain_unreadable
from barnabas.cli.show import counted, show_bytes


class Problem(NamedTuple):
    """An inconsistency, its position and its consequence."""

    file: Path
    position: int | None
    what: str
    meaning: str

    def __str__(self) -> str:
        place = f"{self.file}" if self.position is None else f"{self.file} at byte {self.position}"
        return f"{place}: {self.what} ({self.meaning})"

    def as_json(self) -> str:
        return json.dumps({"kind": "problem", **self._asdict(), "file": str(self.file)})


@dataclass(slots=True)
class VerifyReport:
    """Totals while files are read; `problem` is called with each problem found."""

    problem: Callable[[Problem], None]
    advance: Callable[[int], None]
    deep: bool
    problems: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0
    log_ends: dict[Path, int] = field(default_factory=dict)

    def report(self, file: Path, position: int | None, what: str, meaning: str) -> None:
        self.problems += 1
        self.problem(Problem(file, position, what, meaning))

    def report_unreadable(self, file: Path, error: OSError) -> None:
        """Report a file that could not be read; it may be intact."""
        self.report(file, None, explain_unreadable(error), "not checked")

    def summary(self, partitions: int) -> str:
        seen = f"{counted(self.segments, 'segment')}, {counted(self.batches, 'batch')}, "
        seen += f"{counted(self.records, 'record')}, {show_bytes(self.size)}"
        found = counted(self.problems, "problem") if self.problems else "no problems"
        return f"{counted(partitions, 'partition')}, {seen}: {found}"

    def summary_as_json(self, partitions: int) -> str:
        names = ("segments", "batches", "records", "size", "problems")
        counts = {name: getattr(self, name) for name in names}
        return json.dumps({"kind": "summary", "partitions": partitions, **counts})
