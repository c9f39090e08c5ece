"""Dead letters of a table: records that do not fit its schema, to a topic, each once.

The table's commit holds the ends of the dead-letter topic. Dead letters after them are of a step
that was not committed: when that step runs again, it does not write them again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.base.ids import TopicPartition
from barnabas.cli.client import ClusterClients, admin, create_topics
from barnabas.spark.archive.archive_run import read_ranges
from barnabas.spark.archive.archive_source import (
    Bounds,
    PartitionRange,
    snapshot_created,
    snapshot_topics,
)
from barnabas.spark.dead_letters import HEADER, dead_letters
from barnabas.spark.kill_points import reached
from barnabas.spark.table.table_rows import bad_reason
from barnabas.spark.table_log.table_state import TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The last one: a dead letter may have been one before. Other programs may write to the topic, too.
_ORIGIN: Final = "string(try_element_at(filter(headers, h -> h.key = '{}{}'), -1).value)"


class DeadLetters:
    """Writes the bad records of steps to the dead-letter topic."""

    def __init__(
        self, cluster: ClusterClients, options: Mapping[str, str], definition: TableDefinition
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._source = definition.topic
        self._topic = definition.dead_letters or f"{definition.topic}-dead-letters"
        self.reason = bad_reason(definition)

    def write(
        self, records: "DataFrame", ranges: Sequence[PartitionRange], ends: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Write the bad ones among `records`; return the topic's ends.

        `ends` are those of the last commit.
        """
        self._create()
        bad = records.selectExpr("partition", "offset", f"{self.reason} AS reason")
        raw = read_ranges(records.sparkSession, self._options, ranges)
        found = raw.join(bad.where("reason IS NOT NULL"), ["partition", "offset"])
        new = self._unwritten(found, ends)
        (
            dead_letters(new)
            .write.format("barnabas")
            .options(**self._options)
            .option("topic", self._topic)
            .option("exactlyOnce", "true")
            .mode("append")
            .save()
        )
        reached("dead-letters")
        return self._bounds()

    def _create(self) -> None:
        client, metadata = self._cluster.admin()
        if self._topic not in metadata.topics:
            create_topics(client, [admin.NewTopic(self._topic, 1, -1)])
            snapshot_created(self._cluster, self._topic)

    def _bounds(self) -> dict[int, int]:
        found = snapshot_topics(self._cluster, [self._topic])[self._topic]
        return {number: each.end for number, each in found.bounds.items()}

    def _unwritten(self, bad: "DataFrame", ends: Mapping[int, int]) -> "DataFrame":
        """The bad records that an unfinished step has not written yet."""
        found = snapshot_topics(self._cluster, [self._topic])[self._topic]
        tail = [
            PartitionRange(
                TopicPartition(self._topic, number), _unseen(each, ends.get(number)), each.end
            )
            for number, each in found.bounds.items()
        ]
        if not any(each.size for each in tail):
            return bad
        written = read_ranges(bad.sparkSession, self._options, tail).selectExpr(
            f"{_ORIGIN.format(HEADER, 'topic')} AS was_topic",
            f"try_cast({_ORIGIN.format(HEADER, 'partition')} AS INT) AS partition",
            f"try_cast({_ORIGIN.format(HEADER, 'offset')} AS BIGINT) AS offset",
        )
        ours = written.where(written.was_topic == self._source).drop("was_topic")
        return bad.join(ours, ["partition", "offset"], "left_anti")


def _unseen(bounds: Bounds, end: int | None) -> int:
    """Where dead letters begin that no commit covers: all of them if the topic is another now."""
    return bounds.start if end is None or end > bounds.end else max(bounds.start, end)
