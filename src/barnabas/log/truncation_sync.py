"""The fsync of truncated logs, before anything is appended in place of what is gone."""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.disk.disk import Disk
from barnabas.log.log import Log
from barnabas.log.log_dir import CheckpointWrite


class TruncationSync(NamedTuple):
    """Work for a thread: fsync logs and checkpoints after a truncation.

    A crash before it is done is harmless: a log that ends before what its checkpoints say gets
    lower ones when it is opened, and one that comes back in its old length is truncated again.
    """

    paths: Sequence[tuple[Disk, str]]
    writes: Sequence[CheckpointWrite]
    cuts: Sequence[tuple[Log, int]]

    def run(self) -> None:
        """Block until all is on disk. Afterwards the event loop calls `done`."""
        for disk in dict.fromkeys(disk for disk, _ in self.paths):
            disk.sync_all([path for each, path in self.paths if each is disk])
        for write in self.writes:
            write.run()

    def done(self) -> None:
        """Allow appends to the logs, but for those that were truncated again meanwhile."""
        for log, cut in self.cuts:
            log.on_settled(cut)
