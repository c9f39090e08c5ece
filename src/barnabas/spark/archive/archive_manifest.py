"""The manifest of an archive: its files, and each partition's offsets, counts and checksums.

The manifest defines the archive and is replaced atomically. A file that it lists is complete; a
file that it does not list does not belong to the archive.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from barnabas.cli.exit_codes import CommandFailed

VERSION: Final = 1


@dataclass(frozen=True)
class Part:
    """The records of one partition in one file; both offsets are inclusive."""

    partition: int
    records: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    checksum: int


@dataclass(frozen=True)
class ArchivedFile:
    """One Parquet file, by its path below the archive's directory."""

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
    """The archived offsets [start, end). Records in `gaps` were deleted before the archive ran."""

    start: int
    end: int
    records: int = 0
    checksum: int = 0
    leader_epoch: int = -1
    gaps: tuple[tuple[int, int], ...] = ()

    def after(self, start: int, end: int, parts: Iterable[Part], epoch: int) -> "ArchivedPartition":
        """This partition, extended to `end` by the records read from `start`."""
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
    """A topic as of the last run of the archive."""

    topic_id: str
    partition_count: int
    partitions: dict[int, ArchivedPartition] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """The content of an archive after `sequence` commits."""

    sequence: int = 0
    topics: dict[str, ArchivedTopic] = field(default_factory=dict)
    files: tuple[ArchivedFile, ...] = ()

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    def files_of(self, topic: str) -> list[ArchivedFile]:
        return [file for file in self.files if file.topic == topic]


def parse_manifest(text: str, where: str) -> Manifest:
    """Raises CommandFailed if the text is not a manifest, or one of a newer version."""
    try:
        found: dict[str, Any] = json.loads(text)
        if found["version"] > VERSION:
            raise CommandFailed(
                f"{where} was written by a newer version of barnabas; upgrade barnabas"
            )
        topics = {name: _topic(each) for name, each in found["topics"].items()}
        return Manifest(found["sequence"], topics, tuple(_file(each) for each in found["files"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"{where} is not an archive manifest: {error}") from None


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
