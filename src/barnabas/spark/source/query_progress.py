"""The progress of a streaming query, committed to a group: its lag shows like any consumer's.

Spark does not use it: a query resumes from its checkpoint. So a commit that fails is logged and
never ends the query. The group is the option groupId, else `spark-NAME` by the query's name, or
`spark-ID` for a query without a name.
"""

import logging

from barnabas.base.randomness import Random
from barnabas.spark.source.query_group import (
    commit_offsets,
    new_token_group,
    receive_query_group,
)
from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.source.stream_offset import Positions
from barnabas.spark.spark_cluster import SparkCluster, by_topic
from barnabas.spark.user_errors import SparkFailure

log = logging.getLogger("barnabas.spark")


class Progress:
    """Commits the positions of a query once the name of its group is known."""

    def __init__(self, group: str | None) -> None:
        self._group = group
        self._token_group: str | None = None
        self._warned = False
        self._committed: Positions = {}

    def token_group(self) -> str | None:
        """The group in which a task hands over the name of the query's; None if that is known."""
        if self._group is not None:
            return None
        if self._token_group is None:
            self._token_group = new_token_group(Random())
        return self._token_group

    def done(self, positions: Positions, cluster: SparkCluster) -> None:
        """All before `positions` is processed: commit it, unless it is committed already."""
        if self._group is None and self._token_group is not None:
            self._receive(self._token_group, cluster)
        if self._group is None or positions == self._committed:
            return
        try:
            commit(cluster, self._group, positions)
        except SparkFailure as failure:
            log.warning("progress of group %s is not committed: %s", self._group, failure)
        self._committed = positions

    def _receive(self, token_group: str, cluster: SparkCluster) -> None:
        self._group = receive_query_group(cluster, token_group)
        if self._group is None and not self._warned:
            self._warned = True
            log.warning(
                "progress is not committed: no task has handed over the query's name; if that"
                " stays so, set the option groupId"
            )


def commit(cluster: SparkCluster, group: str, positions: Positions) -> None:
    """Raises  SparkFailure"""

    def position(partition: TopicPartition) -> dict[str, object]:
        return {
            "partition_index": partition.partition,
            "committed_offset": positions[partition].offset,
            "committed_leader_epoch": positions[partition].epoch,
            "committed_metadata": "",
        }

    commit_offsets(cluster, group, by_topic("name", positions, position))
