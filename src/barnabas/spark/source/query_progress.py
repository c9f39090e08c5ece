"""How far a streaming query has come, committed to a group: its lag shows like any consumer's.

Spark does not go by it: a query goes on from its checkpoint. So a commit that fails is told in
the log and never ends the query. The group is the option groupId, else `spark-NAME` by the
query's name, or `spark-ID` for a query without one.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.base.randomness import Random
from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.source.stream_offset import Positions
from barnabas.spark.source.telling import Ear, Listener
from barnabas.spark.spark_cluster import Cluster, Unsettled, by_topic
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey

log = logging.getLogger("barnabas.spark")

_NO_GENERATION: Final = -1
_PATIENCE_S: Final = 5.0  # a query does not wait longer for what it does not need
_SOON: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


class Progress:
    """Commits what a query has read, as far as its group is known."""

    def __init__(self, group: str | None) -> None:
        self._group = group
        self._listener: Listener | None = None
        self._warned = False
        self._committed: Positions = {}

    def ear(self, cluster: Cluster) -> Ear | None:
        """Where a task shall tell the group's name; None if it is known."""
        if self._group is None and self._listener is None and cluster.local_host is not None:
            self._listener = Listener(cluster.local_host, Random())
        return None if self._listener is None else self._listener.ear

    def done(self, positions: Positions, cluster: Cluster) -> None:
        """All before `positions` is processed: commit it, if that is news and the group known."""
        if self._listener is not None:
            self._hear(self._listener)
        if self._group is None or positions == self._committed:
            return
        try:
            commit(cluster, self._group, positions)
        except SparkFailure as failure:
            log.warning("progress of group %s is not committed: %s", self._group, failure)
        self._committed = positions

    def _hear(self, listener: Listener) -> None:
        self._group = listener.heard()
        if self._group is not None:
            self.close()
        elif not self._warned:
            self._warned = True
            log.warning(
                "progress is not committed: no task has reached the driver to tell the query's"
                " name; if that stays so, set the option groupId"
            )

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._listener = None


def commit(cluster: Cluster, group: str, positions: Positions) -> None:
    """Commit as one who is no member of the group. Raises SparkFailure."""

    def ask(partition: TopicPartition) -> dict[str, object]:
        return {
            "partition_index": partition.partition,
            "committed_offset": positions[partition].offset,
            "committed_leader_epoch": positions[partition].epoch,
            "committed_metadata": "",
        }

    def work(coordinator: Callable[..., Any]) -> None:
        answer = coordinator(
            ApiKey.OFFSET_COMMIT,
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            topics=by_topic("name", positions, ask),
        )
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code in _SOON:
                    raise Unsettled(each.error_code.name)
                if each.error_code is not ErrorCode.none:
                    raise SparkFailure(
                        f"{topic.name}-{each.partition_index}: {each.error_code.name}"
                    )

    cluster.coordinated(group, work, _PATIENCE_S)
