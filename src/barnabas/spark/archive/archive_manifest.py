"""What an archive holds: its files, and the offsets, counts and checksums of every partition.

The manifest is the archive. It is replaced as a whole, in one step; a file that it does not name
does not belong to the archive, and one that it names is complete.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed

VERSION: Final = 1


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic} [{self.number}]"


@dataclass(frozen=True)
class Part:
    """What one file holds of one partition; both offsets are of records in it."""

    partition: int
    records: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    checksum: int


@dataclass(frozen=True)
class ArchivedFile:
    """One Parquet file, by its path below the archive's folder."""

    path: str
    topic: str
    day: str
    bytes: int
    parts: tuple[Part, ...]

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)


@dataclass(frozen=True)
class ArchivedPartition:
    """All offsets in [start, end) are archived, but for the gaps: those were gone before."""

    start: int
    end: int
    records: int = 0
    checksum: int = 0
    leader_epoch: int = -1
    gaps: tuple[tuple[int, int], ...] = ()

    def after(self, start: int, end: int, parts: Iterable[Part], epoch: int) -> "ArchivedPartition":
        """The same, grown up to `end` by what was read from `start` on."""
        added = list(parts)
        return replace(
            self,
            end=end,
            records=self.records + sum(part.records for part in added),
            checksum=self.checksum + sum(part.checksum for part in added),
            leader_epoch=epoch,
            gaps=(*self.gaps, *([(self.end, start)] if start > self.end else [])),
        )


@dataclass(frozen=True)
class ArchivedTopic:
    """A topic as it was known when it was last archived."""

    topic_id: str
    partition_count: int
    partitions: dict[int, ArchivedPartition] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """The content of an archive after `sequence` changes of it."""

    sequence: int = 0
    topics: dict[str, ArchivedTopic] = field(default_factory=dict)
    files: tuple[ArchivedFile, ...] = ()

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    def files_of(self, topic: str) -> list[ArchivedFile]:
        return [file for file in self.files if file.topic == topic]


def parse_manifest(text: str, where: str) -> Manifest:
    """Raises CommandFailed if it is no manifest, or one of a newer version."""
    try:
        found: dict[str, Any] = json.loads(text)
        if found["version"] > VERSION:
            raise CommandFailed(f"{where} was written by a newer version of barnabas; use that one")
        topics = {name: _topic(each) for name, each in found["topics"].items()}
        return Manifest(found["sequence"], topics, tuple(_file(each) for each in found["files"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"{where} is no manifest of an archive: {error}") from None


def _topic(found: dict[str, Any]) -> ArchivedTopic:
    partitions = {
        int(number): ArchivedPartition(
            **{**each, "gaps": tuple((start, end) for start, end in each["gaps"])}
        )
        for number, each in found["partitions"].items()
    }
    return ArchivedTopic(found["topic_id"], found["partition_count"], partitions)


def _file(found: dict[str, Any]) -> ArchivedFile:
    return ArchivedFile(**{**found, "parts": tuple(Part(**part) for part in found["parts"])})
