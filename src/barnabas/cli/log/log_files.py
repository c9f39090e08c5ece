"""The files of brokers below given paths, grouped by directory."""

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
LOG_DIR_FILES: Final = (*OFFSET_CHECKPOINTS, "meta.properties", CLEAN_SHUTDOWN)
_REMOVED: Final = "-delete"


class BrokerDir(NamedTuple):
    """A log directory, or a partition's directory in it, with the names of the requested files."""

    path: Path
    names: Sequence[str]

    @property
    def is_partition(self) -> bool:
        return any(SEGMENT_FILE.fullmatch(name) or name in PARTITION_FILES for name in self.names)

    @property
    def bases(self) -> list[int]:
        """The base offsets of all segments, requested or not, in order.

        Raises  PermissionError
        """
        found = (SEGMENT_FILE.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(int(match[1]) for match in found if match and match[2] == "log")

    @property
    def was_closed(self) -> bool:
        """True if the broker shut down cleanly, so that the log needs no recovery.

        Raises  PermissionError
        """
        return (self.path.parent / CLEAN_SHUTDOWN).exists()

    def files(self, suffix: str) -> Iterator[Path]:
        return (self.path / name for name in self.names if name.endswith(suffix))


class Below(NamedTuple):
    """The files below a path, sorted, and the errors of unreadable directories."""

    files: list[Path]
    errors: list[OSError]


def files_below(path: Path) -> Below:
    """All files below `path`, or `path` itself. Raises CommandFailed if it does not exist."""
    try:
        if not path.exists():
            raise CommandFailed(f"{path}: no such file or directory")
    except PermissionError as error:
        return Below([], [error])
    if not path.is_dir():
        return Below([path], [])
    errors: list[OSError] = []
    walked = os.walk(path, onerror=errors.append)
    files = sorted(Path(directory, name) for directory, _, names in walked for name in names)
    refused = [error for error in errors if not isinstance(error, FileNotFoundError)]
    return Below(files, sorted(refused, key=lambda error: str(error.filename)))


def explain_unreadable(error: OSError) -> str:
    """The reason why a file or directory cannot be read."""
    hint = "; run as the broker's user" if isinstance(error, PermissionError) else ""
    return f"cannot be read: {error.strerror or error}{hint}"


def find_broker_dirs(paths: Sequence[Path]) -> tuple[list[BrokerDir], list[OSError]]:
    """The directories below `paths` with files of a broker, and errors of unreadable ones.

    Raises  CommandFailed if a path does not exist, or has no file of a broker
    """
    names: dict[Path, dict[str, None]] = {}
    errors: list[OSError] = []
    for path in paths:
        below = files_below(path)
        found = [each for each in below.files if _is_known(each)]
        if not found and not below.errors:
            raise CommandFailed(f"{path}: not a file of a broker")
        errors += below.errors
        for each in found:
            names.setdefault(each.parent, {})[each.name] = None
    return [BrokerDir(directory, list(inside)) for directory, inside in names.items()], errors


def _is_known(path: Path) -> bool:
    known = path.name in PARTITION_FILES or path.name in LOG_DIR_FILES
    is_file_of_broker = known or SEGMENT_FILE.fullmatch(path.name) is not None
    return is_file_of_broker and not path.parent.name.endswith(_REMOVED)


def total_bytes(directories: Sequence[BrokerDir]) -> int:
    """The total size of the segments, for a progress bar."""
    total = 0
    for directory in directories:
        for path in directory.files(".log"):
            # Removed by a running broker, or unreadable: reported when it is read.
            with suppress(FileNotFoundError, PermissionError):
                total += path.stat().st_size
    return total
