"""Work on a log's files that would block the loop, and so is handed out for a thread."""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.base.ids import Offset, TopicPartition
from barnabas.disk.disk import Disk


class Flush(NamedTuple):
    """Work for a thread: bring the log up to `offset` onto the medium."""

    disk: Disk
    paths: Sequence[str]
    offset: Offset

    def run(self) -> None:
        """Block until all is on the medium. Afterwards the loop tells the log: `on_flushed`."""
        for path in self.paths:
            self.disk.sync(path)


class Removal(NamedTuple):
    """Work for a thread, `delay_ms` from now: remove what no longer belongs to the log."""

    disk: Disk
    paths: Sequence[str]
    delay_ms: int
    partition: TopicPartition | None = None  # whose log it shortened, if that goes on

    def run(self) -> None:
        for path in self.paths:
            self.disk.remove(path)
