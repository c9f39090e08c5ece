"""Flushes and removals of a log's files: work for a thread, since it would block the loop."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from barnabas.base.ids import Offset, TopicPartition
from barnabas.disk.disk import Disk


class Flush(NamedTuple):
    """Work for a thread: flush the log up to `offset`."""

    disk: Disk
    paths: Sequence[str]
    offset: Offset

    def run(self) -> None:
        """Fsync all files; blocks. Afterwards the loop calls the log's `on_flushed`."""
        self.disk.sync_all(self.paths)


class Removal(NamedTuple):
    """Work for a thread, `delay_ms` from now: remove files that no longer belong to the log."""

    disk: Disk
    paths: Sequence[str]
    delay_ms: int
    partition: TopicPartition | None = None  # whose log it shortened, if that goes on

    def run(self) -> None:
        for path in self.paths:
            self.disk.remove(path)


class Removals(Protocol):
    def remove_later(self, removal: Removal, /) -> None:
        """Remove files of the log when their delay is over."""
        ...
