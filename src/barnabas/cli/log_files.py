"""Finds the files of brokers below the paths that a user names, and groups them by folder."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cli.failures import CommandFailed

SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|snapshot|txnindex)", re.ASCII)
PARTITION_FILES: Final = ("leader-epoch-checkpoint", "partition.metadata")
OFFSET_CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
FOLDER_FILES: Final = (*OFFSET_CHECKPOINTS, "meta.properties", CLEAN_SHUTDOWN)
_REMOVED: Final = "-delete"


class Folder(NamedTuple):
    """A folder and the names in it that were asked for: of a partition, or of all of them."""

    path: Path
    names: Sequence[str]

    @property
    def is_partition(self) -> bool:
        return any(SEGMENT_FILE.fullmatch(name) or name in PARTITION_FILES for name in self.names)

    @property
    def bases(self) -> list[int]:
        """The base offsets of all segments there are, asked for or not; rising."""
        found = (SEGMENT_FILE.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(int(match[1]) for match in found if match and match[2] == "log")

    @property
    def was_closed(self) -> bool:
        """Whether the broker closed the partition, so that nothing is still to be recovered."""
        return (self.path.parent / CLEAN_SHUTDOWN).exists()

    def files(self, suffix: str) -> Iterator[Path]:
        return (self.path / name for name in self.names if name.endswith(suffix))


def find_folders(paths: Sequence[Path]) -> list[Folder]:
    """The folders below `paths` that hold something of a broker's, in order.

    Raises  CommandFailed if a path is not there, or nothing of a broker is below it
    """
    names: dict[Path, dict[str, None]] = {}
    for path in paths:
        if not path.exists():
            raise CommandFailed(f"{path}: there is no such file or folder")
        found = [each for each in _below(path) if _is_known(each.name)]
        if not found:
            raise CommandFailed(f"{path}: by its name nothing that a broker writes")
        for each in found:
            names.setdefault(each.parent, {})[each.name] = None
    return [Folder(folder, list(inside)) for folder, inside in names.items()]


def _below(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [each for each in sorted(path.rglob("*")) if not each.parent.name.endswith(_REMOVED)]


def _is_known(name: str) -> bool:
    known = name in PARTITION_FILES or name in FOLDER_FILES
    return known or SEGMENT_FILE.fullmatch(name) is not None


def total_bytes(folders: Sequence[Folder]) -> int:
    """The size of all segments, which is what reading them takes."""
    total = 0
    for folder in folders:
        for path in folder.files(".log"):
            with suppress(FileNotFoundError):  # retention, of a running broker
                total += path.stat().st_size
    return total
