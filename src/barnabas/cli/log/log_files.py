"""Finds the files of brokers below the paths that a user names, and groups them by folder."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed

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
        """The base offsets of all segments there are, asked for or not; rising.

        Raises  PermissionError
        """
        found = (SEGMENT_FILE.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(int(match[1]) for match in found if match and match[2] == "log")

    @property
    def was_closed(self) -> bool:
        """Whether the broker closed the partition, so that nothing is still to be recovered.

        Raises  PermissionError
        """
        return (self.path.parent / CLEAN_SHUTDOWN).exists()

    def files(self, suffix: str) -> Iterator[Path]:
        return (self.path / name for name in self.names if name.endswith(suffix))


class Below(NamedTuple):
    """The files below a path, in order, and why some folders could not be looked into."""

    files: list[Path]
    errors: list[OSError]


def files_below(path: Path) -> Below:
    """All files there, or `path` itself if it is one. Raises CommandFailed if it is not there."""
    try:
        if not path.exists():
            raise CommandFailed(f"{path}: there is no such file or folder")
    except PermissionError as error:
        return Below([], [error])
    if not path.is_dir():
        return Below([path], [])
    errors: list[OSError] = []
    walked = os.walk(path, onerror=errors.append)
    files = sorted(Path(folder, name) for folder, _, names in walked for name in names)
    refused = [error for error in errors if not isinstance(error, FileNotFoundError)]
    return Below(files, sorted(refused, key=lambda error: str(error.filename)))


def explain_unreadable(error: OSError) -> str:
    """Why a file or folder cannot be read, which says nothing of what is in it."""
    hint = "; run as the broker's user" if isinstance(error, PermissionError) else ""
    return f"cannot be read: {error.strerror or error}{hint}"


def find_folders(paths: Sequence[Path]) -> tuple[list[Folder], list[OSError]]:
    """The folders below `paths` that hold something of a broker's, in order.

    The errors are of folders that could not be looked into.

    Raises  CommandFailed if a path is not there, or nothing of a broker is below it
    """
    names: dict[Path, dict[str, None]] = {}
    errors: list[OSError] = []
    for path in paths:
        below = files_below(path)
        found = [each for each in below.files if _is_known(each)]
        if not found and not below.errors:
            raise CommandFailed(f"{path}: by its name nothing that a broker writes")
        errors += below.errors
        for each in found:
            names.setdefault(each.parent, {})[each.name] = None
    return [Folder(folder, list(inside)) for folder, inside in names.items()], errors


def _is_known(path: Path) -> bool:
    known = path.name in PARTITION_FILES or path.name in FOLDER_FILES
    is_file_of_broker = known or SEGMENT_FILE.fullmatch(path.name) is not None
    return is_file_of_broker and not path.parent.name.endswith(_REMOVED)


def total_bytes(folders: Sequence[Folder]) -> int:
    """The size of all segments, which is what reading them takes."""
    total = 0
    for folder in folders:
        for path in folder.files(".log"):
            # Removed by a running broker; what may not be read is told when it is to be read.
            with suppress(FileNotFoundError, PermissionError):
                total += path.stat().st_size
    return total
