"""Leaders for tests: alone, or with followers that the test speaks for."""

from typing import Any, Final
from uuid import UUID

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.log.log import Log
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.leadership import Leadership

ME: Final = BrokerId(1)
F2: Final = BrokerId(2)
F3: Final = BrokerId(3)
F4: Final = BrokerId(4)


def leadership(
    partition: TopicPartition,
    *,
    isr: tuple[BrokerId, ...] = (ME,),
    replicas: tuple[BrokerId, ...] | None = None,
    epoch: int = 0,
    partition_epoch: int = 0,
    **others: Any,
) -> Leadership:
    return Leadership(
        partition,
        UUID(int=1),
        leader=ME,
        leader_epoch=LeaderEpoch(epoch),
        isr=isr,
        partition_epoch=partition_epoch,
        replicas=isr if replicas is None else replicas,
        controller_epoch=7,
        **others,
    )


def sole_leader(log: Log, epoch: int = 0) -> LeaderReplica:
    """The only replica: all that its log has is committed."""
    return LeaderReplica(
        ME,
        leadership(log.partition, epoch=epoch),
        log,
        high_watermark=log.log_end_offset,
        now_ms=0,
    )
