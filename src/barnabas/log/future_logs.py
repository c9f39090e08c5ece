"""Future logs: copies of logs in another log directory that will take their place (KIP-113).

A future log has the directory `<topic>-<partition>.<uuid>-future`. When it has caught up, both logs
change their names in one turn of the loop: the current one gets the suffix `-delete`, the future
one loses its own. A crash may leave either rename undone. The file `future-is-complete`, which is
on disk before them, says what a start has found:

    both logs, one of them future     nothing was renamed: go on copying
    only the future one               it is renamed now
    both, none of them future         the one with the file stays, the other one is removed
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.disk.disk import Disk
from barnabas.log.background_work import Removal
from barnabas.log.deleted_logs import rename_to_delete
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDir
from barnabas.log.recovery.duplicate_log_dirs import COMPLETE
from barnabas.log.recovery.log_loader import Opening, write_topic_id

FUTURE: Final = "-future"
_NAME: Final = re.compile(rf"(.+)-(\d+)\.[0-9a-f]{{32}}{FUTURE}", re.ASCII)
_LONGEST: Final = 255

Open: TypeAlias = Callable[[LogDir, Opening], Log]


def future_partition(name: str) -> TopicPartition | None:
    """The partition of a future log by the name of its directory; None for other names."""
    match = _NAME.fullmatch(name)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def check_future_name(partition: TopicPartition) -> None:
    """Raises BrokerError(invalid_topic_exception), if the directory's name would be too long."""
    if len(f"{partition}.{'0' * 32}{FUTURE}") > _LONGEST:
        raise BrokerError(ErrorCode.invalid_topic_exception, "The topic name is too long.")


class FutureLogs:
    """The future logs of a broker, at most one of each partition."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._logs: dict[TopicPartition, Log] = {}

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    def create(self, log_dir: LogDir, current: Log, open_log: Open) -> Log:
        """Create an empty one. Raises DiskFault."""
        partition, disk = current.partition, log_dir.disk
        unmark_complete(current)  # of an earlier move
        directory = f"{partition}.{self._random.uuid().hex}{FUTURE}"
        disk.make_dir(directory)
        if current.topic_id is not None:
            write_topic_id(disk, directory, current.topic_id)
        opening = Opening(
            partition, current.config, clean=True, recovery_point=0, directory=directory
        )
        log = self._logs[partition] = open_log(log_dir, opening)
        return log

    def open(self, log_dir: LogDir, name: str, current: Log, open_log: Open) -> None:
        """Open the one in the directory `name`; blocks. Raises DiskFault."""
        opening = Opening(current.partition, current.config, log_dir.was_clean, directory=name)
        self._logs[current.partition] = open_log(log_dir, opening)

    def pop(self, partition: TopicPartition) -> Log | None:
        return self._logs.pop(partition, None)

    def delete(self, partition: TopicPartition) -> Removal | None:
        """Delete the one of a partition, if there is one. Raises DiskFault."""
        log = self.pop(partition)
        if log is None:
            return None
        delay_ms = log.config.file_delete_delay_ms
        return rename_to_delete(log.disk, partition, self._random, delay_ms, log.directory)

    def open_all(
        self, log_dir: LogDir, current: Mapping[TopicPartition, Log], open_log: Open
    ) -> Iterator[Removal]:
        """Open those of a log directory whose partitions have a log in another one; blocks.

        Returns the removals of those that are not needed: beside the current log, or a second one.

        Raises  DiskFault
        """
        for name in log_dir.disk.list():
            partition = future_partition(name)
            log = None if partition is None else current.get(partition)
            if partition is None or log is None:
                continue
            if log.disk is log_dir.disk or partition in self._logs:
                yield rename_to_delete(log_dir.disk, partition, self._random, 0, name)
            else:
                self.open(log_dir, name, log, open_log)

    def take_offline(self, log_dir: str) -> None:
        """Forget those of a failed log directory."""
        self._logs = {each.partition: each for each in self if each.disk.log_dir != log_dir}


def mark_complete(log: Log) -> None:
    """Write the file that precedes the renames; blocks. Raises DiskFault."""
    log.disk.replace(f"{log.directory}/{COMPLETE}", b"")


def unmark_complete(log: Log) -> None:
    """Remove that file; blocks. Raises DiskFault."""
    log.disk.remove(f"{log.directory}/{COMPLETE}")


def finish_renames(disks: Sequence[Disk]) -> None:
    """Rename the complete future logs whose current logs are gone; blocks. Raises DiskFault.

    `disks` are all log directories: an absent current log must not be in another one.
    """
    names = {disk: disk.list() for disk in disks}
    present = {name for found in names.values() for name in found}
    for disk, found in names.items():
        for name in found:
            partition = future_partition(name)
            if partition is None or str(partition) in present:
                continue
            if disk.status(f"{name}/{COMPLETE}") is not None:
                disk.rename(name, str(partition))
                disk.sync()
