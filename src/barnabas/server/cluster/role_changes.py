"""Changes of the roles of replicas, passed on to the requests and groups that depend on them."""

from collections.abc import Sequence

from barnabas.base.ids import TopicPartition
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC


class RoleChanges:
    """Wakes delayed requests, then loads or drops the groups of `__consumer_offsets`."""

    def __init__(self, delayed: Delayed, groups: GroupCoordinator) -> None:
        self._delayed = delayed
        self._groups = groups

    def on_changed(self, partitions: Sequence[TopicPartition]) -> None:
        """Several at once: a request that waits for many of them is checked once."""
        self._delayed.on_partitions(partitions)
        for partition in partitions:
            if partition.topic == OFFSETS_TOPIC:
                self._groups.on_role(partition)
