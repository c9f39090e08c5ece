"""Unclean leader elections: the topics that allow them, and the warning about each."""

import logging
from collections.abc import Iterable
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context, PartitionLeadership
from barnabas.controller.io.store import Store

log = logging.getLogger("barnabas.controller")

_PROPERTY: Final = "unclean.leader.election.enable"


async def unclean_topics(
    context: Context, store: Store, partitions: Iterable[TopicPartition], default: bool
) -> dict[str, None]:
    """The topics that allow unclean elections, of those with an ISR that is entirely offline."""
    topics = dict.fromkeys(each.topic for each in partitions if _lost_its_isr(context, each))
    configs = await store.topic_configs(list(topics))
    otherwise = str(default)
    return {
        topic: None
        for topic in topics
        if configs[topic].get(_PROPERTY, otherwise).lower() == "true"
    }


def _lost_its_isr(context: Context, partition: TopicPartition) -> bool:
    leadership = context.leadership.get(partition)
    return leadership is not None and not any(
        context.is_online(broker, partition) for broker in leadership.state.isr
    )


def warn_of_unclean(
    partition: TopicPartition, before: PartitionLeadership, now: PartitionLeadership
) -> None:
    """Log the partition that may lose records, and the brokers that still have them."""
    log.warning(
        "unclean election: records that only the in-sync replicas had are lost "
        "partition=%s leader=%d leader_epoch=%d in_sync_before=%s",
        partition,
        now.state.leader,
        now.state.leader_epoch,
        list(before.state.isr),
    )
