"""The leadership of one partition, as the last LeaderAndIsr has it."""

import uuid
from dataclasses import dataclass

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition


@dataclass(frozen=True, slots=True)
class Leadership:
    """One partition's part of a LeaderAndIsr.

    `partition_epoch` is the version of its `state` znode: a leader that changes the ISR writes
    with that version expected, and so cannot undo what it has not seen.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    controller_epoch: int
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    is_new: bool = False
