"""The state of a table: its topic, its definition, and the offsets that the commit covers.

Every commit of a table holds the state as JSON. So the data files and the offsets that they cover
become visible together, or not at all.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from barnabas.cli.exit_codes import CommandFailed

VERSION: Final = 1
STATE_KEY: Final = "barnabas.state"


@dataclass(frozen=True)
class CoveredPartition:
    """The offsets [start, end) in the table. Records in `gaps` were deleted before they were read.

    `epoch` is the leader epoch of the last record, -1 if it is unknown.
    """

    start: int
    end: int
    epoch: int = -1
    gaps: tuple[tuple[int, int], ...] = ()

    def extended(self, start: int, end: int, epoch: int) -> "CoveredPartition":
        """This partition, extended by the offsets [start, end)."""
        gaps = (*self.gaps, *([(self.end, start)] if start > self.end else []))
        return CoveredPartition(self.start, end, epoch, gaps)


@dataclass(frozen=True)
class TableDefinition:
    """How records become rows; `values` are the options of the data source that decode values.

    `columns` are those of the fields of decoded values.
    """

    topic: str
    values: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    upsert: bool = False
    infer: bool = False
    dead_letters: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_decoded(self) -> bool:
        return bool(self.values)


@dataclass(frozen=True)
class TableState:
    """The table after `sequence` commits of ours; `rows` is the number that it has."""

    definition: TableDefinition
    topic_id: str = ""
    sequence: int = 0
    partition_count: int = 0
    partitions: Mapping[int, CoveredPartition] = field(default_factory=dict)
    # The ends of the dead-letter topic: what is after them belongs to a step without a commit.
    dead_letter_ends: Mapping[int, int] = field(default_factory=dict)
    rows: int = 0

    def next(self, **changes: Any) -> "TableState":
        return replace(self, sequence=self.sequence + 1, **changes)

    @property
    def ends(self) -> dict[int, int]:
        return {number: each.end for number, each in self.partitions.items()}

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"))


def parse_state(text: str, where: str) -> TableState:
    """Raises CommandFailed if the text is not the state of a table, or of a newer version."""
    try:
        found: dict[str, Any] = json.loads(text)
        if found.pop("version") > VERSION:
            raise CommandFailed(f"{where} was written by a newer barnabas; upgrade barnabas")
        definition = found.pop("definition")
        definition["partition_by"] = tuple(definition["partition_by"])
        partitions = {int(n): _partition(each) for n, each in found.pop("partitions").items()}
        dead = {int(n): end for n, end in found.pop("dead_letter_ends").items()}
        return TableState(
            TableDefinition(**definition), partitions=partitions, dead_letter_ends=dead, **found
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandFailed(f"{where} has no valid state of a topic: {error}") from None


def _partition(found: dict[str, Any]) -> CoveredPartition:
    gaps = tuple((start, end) for start, end in found.pop("gaps"))
    return CoveredPartition(gaps=gaps, **found)
