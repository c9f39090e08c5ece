"""Changes of the roles of replicas, passed on to the requests and groups that depend on them."""

from collections.abc import Sequence

from barnabas.base.ids import TopicPartition
from barnabas.server.cluster.log_dir_moves import LogDirMoves
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC


class RoleChanges:
    """Wakes delayed requests, resumes moves, loads or drops the groups of `__consumer_offsets`."""

    def __init__(self, delayed: Delayed, groups: GroupCoordinator, moves: LogDirMoves) -> None:
        self._delayed = delayed
        self._groups = groups
        self._moves = moves

    def on_changed(self, partitions: Sequence[TopicPartition]) -> None:
        """Several at once: a request that waits for many of them is checked once."""
        self._delayed.on_partitions(partitions)
        self._moves.start(partitions)
        for partition in partitions:
            if partition.topic == OFFSETS_TOPIC:
                self._groups.on_role(partition)
