"""The input of an audit: the replicas in log directories, their segments and checkpoints."""

import base64
import contextlib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.base.errors import BarnabasError
from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.log.log_files import SEGMENT_FILE, BrokerDir, explain_unreadable, find_broker_dirs
from barnabas.config.properties import parse_properties
from barnabas.disk.disk import RealDisk
from barnabas.log.checkpoints import decode_epoch_checkpoint, decode_offset_checkpoint
from barnabas.log.leader_epochs import EpochEntry
from barnabas.log.recovery.log_loader import read_topic_id

_META: Final = "meta.properties"
_PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)


class SegmentFile(NamedTuple):
    """A `.log` file as of the start of the audit."""

    broker: int
    topic: str
    partition: int
    base_offset: int
    path: str
    size: int
    is_last: bool
    cleaned_to: int


@dataclass(frozen=True)
class ReplicaFiles:
    """The files of one replica, and the broker's checkpoints for it."""

    broker: int
    partition: TopicPartition
    folder: Path
    topic_id: str | None
    segments: tuple[SegmentFile, ...]
    high_watermark: int | None
    log_start: int | None
    cleaned_to: int  # compaction may have removed records before this offset
    epochs: tuple[EpochEntry, ...]
    unreadable: tuple[str, ...]

    @property
    def first_offset(self) -> int:
        """The first offset that consumers can fetch."""
        return max(self.segments[0].base_offset, self.log_start or 0)

    def without_removed(self) -> "ReplicaFiles":
        """Without the segments that retention has deleted since."""
        there = [n for n, each in enumerate(self.segments) if os.path.exists(each.path)]
        return replace(self, segments=self.segments[there[0] :]) if there else self


class _Checkpoints(NamedTuple):
    high_watermarks: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int]
    cleaned: dict[TopicPartition, int]


def find_replicas(paths: Sequence[Path], topics: Collection[str]) -> list[ReplicaFiles]:
    """All replicas below `paths`, of these topics or of all, sorted.

    Raises  CommandFailed if a path cannot be read, or if there is no replica
            Misused if a partition is not in a broker's log directory
    """
    folders, errors = find_broker_dirs(paths)
    if errors:
        raise CommandFailed(f"{errors[0].filename}: {explain_unreadable(errors[0])}")
    brokers: dict[Path, int] = {}
    checkpoints: dict[Path, _Checkpoints] = {}
    found = []
    for folder in folders:
        match = _PARTITION.fullmatch(folder.path.name)
        if not match or (topics and match[1] not in topics) or not _segments(folder):
            continue
        data = folder.path.parent
        if data not in brokers:
            brokers[data] = _broker_of(data)
            checkpoints[data] = _read_checkpoints(data)
        partition = TopicPartition(match[1], int(match[2]))
        replica = _replica(folder, brokers[data], partition, checkpoints[data])
        if replica.segments:  # else the topic was deleted meanwhile
            found.append(replica)
    if not found:
        which = f" of {', '.join(sorted(topics))}" if topics else ""
        raise CommandFailed(f"no partition{which} found below {_listed(paths)}")
    return sorted(found, key=lambda replica: (replica.partition, replica.broker))


def _replica(
    folder: BrokerDir, broker: int, partition: TopicPartition, checkpoints: _Checkpoints
) -> ReplicaFiles:
    sizes = _sizes(folder)
    cleaned_to = checkpoints.cleaned.get(partition, 0)
    unreadable: list[str] = []
    segments = []
    for base_offset, size in sizes.items():
        path = str(_log_file(folder, base_offset))
        is_last = base_offset == max(sizes)
        segments.append(
            SegmentFile(broker, *partition, base_offset, path, size, is_last, cleaned_to)
        )
    epochs: list[EpochEntry] = []
    topic_id: str | None = None
    try:
        if (folder.path / "leader-epoch-checkpoint").exists():
            epochs = decode_epoch_checkpoint((folder.path / "leader-epoch-checkpoint").read_bytes())
        known = read_topic_id(RealDisk(str(folder.path.parent)), folder.path.name)
        topic_id = None if known is None else _as_kafka_writes(known)
    except (BarnabasError, ValueError, OSError) as error:
        unreadable.append(f"{folder.path}: {error}")
    return ReplicaFiles(
        broker,
        partition,
        folder.path,
        topic_id,
        tuple(segments),
        checkpoints.high_watermarks.get(partition),
        checkpoints.log_starts.get(partition),
        cleaned_to,
        tuple(epochs),
        tuple(unreadable),
    )


def _as_kafka_writes(topic_id: UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _segments(folder: BrokerDir) -> list[int]:
    found = (SEGMENT_FILE.fullmatch(name) for name in folder.names)
    return sorted(int(match[1]) for match in found if match and match[2] == "log")


def _sizes(folder: BrokerDir) -> dict[int, int]:
    """The current size of each segment by base offset, read after the checkpoints.

    A running broker may have rolled the log, or deleted segments, since they were listed.
    """
    asked = _segments(folder)
    sizes = {}
    with contextlib.suppress(FileNotFoundError):  # the partition's directory
        asked += [base for base in folder.bases if base > asked[-1]]
    for base_offset in asked:
        with contextlib.suppress(FileNotFoundError):
            sizes[base_offset] = _log_file(folder, base_offset).stat().st_size
    return sizes


def _log_file(folder: BrokerDir, base_offset: int) -> Path:
    return folder.path / f"{base_offset:020}.log"


def _broker_of(data: Path) -> int:
    try:
        return int(parse_properties((data / _META).read_text())["broker.id"])
    except (OSError, KeyError, ValueError):
        raise Misused(
            f"{data} is not a broker's log directory: it has no {_META} with a broker.id; name log"
            " directories of brokers, or a directory above them"
        ) from None


def _read_checkpoints(data: Path) -> _Checkpoints:
    return _Checkpoints(
        *(
            _read_offsets(data / f"{name}-offset-checkpoint")
            for name in ("replication", "log-start", "cleaner")
        )
    )


def _read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Read a checkpoint; a missing or corrupt one is empty, as for a broker."""
    try:
        return decode_offset_checkpoint(path.read_bytes())
    except (FileNotFoundError, BarnabasError):
        return {}


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(map(str, paths))
