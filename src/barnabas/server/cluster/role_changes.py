"""Changes of the roles of replicas, passed on to the requests and groups that depend on them."""

from collections.abc import Sequence

from barnabas.base.ids import TopicPartition
from barnabas.server.cluster.log_dir_moves import LogDirMoves
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.server.transactions.transaction_topic import TRANSACTION_TOPIC


class RoleChanges:
    """Wakes delayed requests, resumes moves, loads or drops the shards of coordinators."""

    def __init__(
        self,
        delayed: Delayed,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        moves: LogDirMoves,
    ) -> None:
        self._delayed = delayed
        self._groups = groups
        self._transactions = transactions
        self._moves = moves

    def on_changed(self, partitions: Sequence[TopicPartition]) -> None:
        """Several at once: a request that waits for many of them is checked once."""
        self._delayed.on_partitions(partitions)
        self._moves.start(partitions)
        for partition in partitions:
            if partition.topic == OFFSETS_TOPIC:
                self._groups.on_role(partition)
            elif partition.topic == TRANSACTION_TOPIC:
                self._transactions.on_role(partition)
