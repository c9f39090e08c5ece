"""Partitions found in two log directories: a log that never held a record yields to the other.

So does one that was about to be replaced by a copy in another log directory: see `future_logs`.
A log directory that fails while a log is created in it keeps an empty log, and the broker creates
the log in another log directory. When the first one is back, both exist.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from barnabas.base.errors import ConfigError
from barnabas.base.ids import TopicPartition
from barnabas.disk.disk import Disk
from barnabas.log.log_dir import LogDir
from barnabas.log.recovery.log_loader import Opening, read_topic_id
from barnabas.log.segment.segment import LOG

COMPLETE: Final = "future-is-complete"  # in the directory of a log that replaces another one
_FIRST_SEGMENT = f"{0:020}{LOG}"

Found = tuple[LogDir, Opening]


def empty_doubles(openings: Sequence[Found]) -> list[Found]:
    """Return the empty and the replaced duplicates, which must not be opened.

    Raises  ConfigError, if nothing shows which of two logs is the partition's
            DiskFault
    """
    by_partition: dict[TopicPartition, list[Found]] = {}
    for found in openings:
        by_partition.setdefault(found[1].partition, []).append(found)
    return [each for found in by_partition.values() for each in _superfluous(found)]


def _superfluous(found: list[Found]) -> list[Found]:
    if len(found) == 1:
        return []
    if len(moved := [each for each in found if _has_replaced(each)]) == 1:
        return [each for each in found if each is not moved[0]]
    filled = [each for each in found if not _never_held_anything(each)]
    named = [each for each in found if _topic_id(each) is not None]
    kept = (filled or named or found)[0]
    if len(filled) > 1 or any(_topic_id(each) != _topic_id(kept) for each in named):
        (one, opening), (other, _), *_ = found
        raise ConfigError(
            f"log.dirs: both {one.disk.log_dir} and {other.disk.log_dir} hold {opening.partition}; "
            "move one copy elsewhere, most likely the one in the log directory that had failed"
        )
    return [each for each in found if each is not kept]


def _has_replaced(found: Found) -> bool:
    log_dir, opening = found
    return log_dir.disk.status(f"{opening.partition}/{COMPLETE}") is not None


def _topic_id(found: Found) -> UUID | None:
    log_dir, opening = found
    return read_topic_id(log_dir.disk, str(opening.partition))


def _never_held_anything(found: Found) -> bool:
    log_dir, opening = found
    disk, name = log_dir.disk, str(opening.partition)
    logs = [each for each in disk.list(name) if each.endswith(LOG)]
    return set(logs) <= {_FIRST_SEGMENT} and not any(_size(disk, f"{name}/{log}") for log in logs)


def _size(disk: Disk, path: str) -> int:
    status = disk.status(path)
    return 0 if status is None else status.size
