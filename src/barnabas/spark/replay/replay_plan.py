"""What a replay is to write, written down before it begins, so that it can be gone on with.

A partition is written in order and by nobody else, so what a topic has got of it already is a
beginning of it: how long it is, the topic's own end offset tells. No record needs a mark.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import ArchivedFile, Manifest, Part


class Selection(NamedTuple):
    """Which records of an archived topic: ranges are half open, None is no bound."""

    topic: str
    partitions: tuple[int, ...] = ()  # all, if empty
    from_offset: int | None = None
    until_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def condition(self) -> str:
        """The same as a condition in SQL."""
        bounds = {
            "offset >= {}": self.from_offset,
            "offset < {}": self.until_offset,
            "timestamp >= timestamp_millis({})": self.since_ms,
            "timestamp < timestamp_millis({})": self.until_ms,
        }
        said = [text.format(bound) for text, bound in bounds.items() if bound is not None]
        if self.partitions:
            said.append(f"partition IN ({', '.join(map(str, self.partitions))})")
        return " AND ".join(said) or "true"

    def files(self, manifest: Manifest) -> list[ArchivedFile]:
        """Those that may have some of it."""
        return [
            file
            for file in manifest.files_of(self.topic)
            if any(self._may_be_in(part) for part in file.parts)
        ]

    def _may_be_in(self, part: Part) -> bool:
        return (
            (not self.partitions or part.partition in self.partitions)
            and (self.from_offset is None or part.last_offset >= self.from_offset)
            and (self.until_offset is None or part.first_offset < self.until_offset)
            and (self.since_ms is None or part.last_timestamp >= self.since_ms)
            and (self.until_ms is None or part.first_timestamp < self.until_ms)
        )


@dataclass(frozen=True)
class PartitionPlan:
    """Records of one partition, and the offset that the first of them gets."""

    records: int
    first_offset: int
    last_offset: int
    checksum: int
    base_offset: int

    def nothing_after(self, base_offset: int) -> "PartitionPlan":
        """No records, as long as the archive has none after these."""
        return PartitionPlan(0, self.last_offset + 1, self.last_offset, 0, base_offset)


@dataclass(frozen=True)
class ReplayPlan:
    """One replay into one topic, by partition; `is_done` once all is written and was checked."""

    target: str
    partitions: Mapping[int, PartitionPlan]
    is_done: bool = False

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions.values())

    def written(self, ends: Mapping[int, int]) -> dict[int, int]:
        """How many records of each partition are written, by the topic's end offsets.

        Raises  CommandFailed if the topic cannot have got them from this replay
        """
        found = {}
        for number, each in self.partitions.items():
            found[number] = ends[number] - each.base_offset
            if not 0 <= found[number] <= each.records:
                raise CommandFailed(
                    f"{self.target} [{number}] ends at offset {ends[number]}, which this replay"
                    f" cannot have caused: it began at {each.base_offset} and has {each.records}"
                    " records; somebody else writes to it. Replay to another topic"
                )
        return found

    def condition(self) -> str:
        """The records of it among those of its selection, in SQL; those after it are taken too."""
        return " OR ".join(
            f"(partition = {n} AND offset >= {each.first_offset})"
            for n, each in self.partitions.items()
        )

    def rest(self) -> str:
        """The records of its selection that come after it, in SQL."""
        before = [
            f"NOT (partition = {n} AND offset <= {each.last_offset})"
            for n, each in self.partitions.items()
        ]
        return " AND ".join(before) or "true"

    def may_grow(self, selection: Selection, manifest: Manifest) -> bool:
        """Whether the archive has files with what comes after it."""
        last = {number: each.last_offset for number, each in self.partitions.items()}
        return any(
            part.last_offset > last.get(part.partition, -1)
            for file in selection.files(manifest)
            for part in file.parts
        )

    def done(self) -> "ReplayPlan":
        return replace(self, is_done=True)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def parse_plan(text: str) -> ReplayPlan:
    found = json.loads(text)
    partitions = {int(n): PartitionPlan(**each) for n, each in found["partitions"].items()}
    return ReplayPlan(found["target"], partitions, found["is_done"])


def plan_path(selection: Selection, target: str, target_id: str) -> str:
    """Where the plan lies in the archive: the same for the same command on the same topic."""
    said = json.dumps([selection, target_id])
    return f"_replays/{target}-{hashlib.sha256(said.encode()).hexdigest()[:12]}.json"
