"""The open logs of a broker, by partition and by log directory."""

from collections import Counter
from collections.abc import Iterator, Mapping

from barnabas.base.ids import TopicPartition
from barnabas.disk.disk import Disk
from barnabas.log.log import Log


class OpenLogs(Mapping[TopicPartition, Log]):
    """At most one log of each partition."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, Log] = {}
        # Of the logs in each log directory: to count them for each new log would be quadratic.
        self._counts: Counter[str] = Counter()

    def __getitem__(self, partition: TopicPartition) -> Log:
        return self._logs[partition]

    def __contains__(self, partition: object) -> bool:
        return partition in self._logs

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def put(self, log: Log) -> None:
        self._logs[log.partition] = log
        self._counts[log.disk.log_dir] += 1

    def pop(self, partition: TopicPartition) -> Log:
        """Remove the log of `partition`; a compaction of it ends."""
        log = self._logs.pop(partition)
        self._counts[log.disk.log_dir] -= 1
        log.cleaning = None
        return log

    def clear(self) -> None:
        self._logs.clear()
        self._counts.clear()

    def on(self, disk: Disk) -> list[Log]:
        """The logs in one log directory."""
        return [log for log in self._logs.values() if log.disk is disk]

    def count(self, log_dir: str) -> int:
        """The number of logs in one log directory."""
        return self._counts[log_dir]
