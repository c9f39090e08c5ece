"""The plan of a replay, stored in the archive before the first write, so that it can be resumed.

Only the replay writes to the target, each partition in order. So the records written so far are a
prefix of the plan, and the end offset of the target gives its length. Records need no marker.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import ArchivedFile, Manifest, Part


class ReplaySelection(NamedTuple):
    """The records of an archived topic to replay; ranges are half-open, None is unbounded."""

    topic: str
    partitions: tuple[int, ...] = ()  # all, if empty
    from_offset: int | None = None
    until_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def condition(self) -> str:
        """The selection as an SQL condition."""
        bounds = {
            "offset >= {}": self.from_offset,
            "offset < {}": self.until_offset,
            "timestamp >= timestamp_millis({})": self.since_ms,
            "timestamp < timestamp_millis({})": self.until_ms,
        }
        conditions = [text.format(bound) for text, bound in bounds.items() if bound is not None]
        if self.partitions:
            conditions.append(f"partition IN ({', '.join(map(str, self.partitions))})")
        return " AND ".join(conditions) or "true"

    def files(self, manifest: Manifest) -> list[ArchivedFile]:
        """The files that may contain selected records."""
        return [
            file
            for file in manifest.files_of(self.topic)
            if any(self._may_be_in(part) for part in file.parts)
        ]

    def oldest_ms(self, manifest: Manifest) -> int | None:
        """The earliest timestamp that a selected record may have; None if no record is selected."""
        found = [
            max(part.first_timestamp, self.since_ms or 0)
            for file in manifest.files_of(self.topic)
            for part in file.parts
            if self._may_be_in(part)
        ]
        return min(found, default=None)

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
    """The records of one partition, and the offset of the first one in the target."""

    records: int
    first_offset: int
    last_offset: int
    checksum: int
    base_offset: int

    def lost_before(self, start: int) -> bool:
        """True if records of the plan are gone from a log that starts there."""
        return self.records > 0 and start > self.base_offset

    def nothing_after(self, base_offset: int) -> "PartitionPlan":
        """An empty plan that remembers how far the archive was replayed."""
        return PartitionPlan(0, self.last_offset + 1, self.last_offset, 0, base_offset)


@dataclass(frozen=True)
class ReplayPlan:
    """A replay to one topic, by partition; `is_done` once all is written and verified."""

    target: str
    partitions: Mapping[int, PartitionPlan]
    is_done: bool = False

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions.values())

    def written(self, ends: Mapping[int, int]) -> dict[int, int]:
        """The number of records written to each partition, by the end offsets of the target.

        Raises  CommandFailed if these end offsets are impossible for this replay
        """
        found = {}
        for number, each in self.partitions.items():
            found[number] = ends[number] - each.base_offset
            if not 0 <= found[number] <= each.records:
                raise CommandFailed(
                    f"{self.target}-{number} ends at offset {ends[number]}, but this replay starts"
                    f" at {each.base_offset} and has {each.records} records: another producer"
                    " writes to the topic; replay to another one"
                )
        return found

    def condition(self) -> str:
        """An SQL condition for the planned records, and for those after them."""
        return " OR ".join(
            f"(partition = {n} AND offset >= {each.first_offset})"
            for n, each in self.partitions.items()
        )

    def rest(self) -> str:
        """An SQL condition for the records after the planned ones."""
        before = [
            f"NOT (partition = {n} AND offset <= {each.last_offset})"
            for n, each in self.partitions.items()
        ]
        return " AND ".join(before) or "true"

    def may_grow(self, selection: ReplaySelection, manifest: Manifest) -> bool:
        """True if the archive may have records after the planned ones."""
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


def plan_path(selection: ReplaySelection, target: str, target_id: str) -> str:
    """The path of the plan in the archive: equal for the same command on the same topic."""
    spec = json.dumps([selection, target_id])
    return f"_replays/{target}-{hashlib.sha256(spec.encode()).hexdigest()[:12]}.json"
