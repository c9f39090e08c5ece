"""Elections that may lose records: which topics allow them, and the warning when one happens."""

import logging
from collections.abc import Iterable
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context, Led
from barnabas.controller.io.store import Store

log = logging.getLogger("barnabas.controller")

_PROPERTY: Final = "unclean.leader.election.enable"


async def unclean_topics(
    context: Context, store: Store, partitions: Iterable[TopicPartition], default: bool
) -> dict[str, None]:
    """Those that allow it, of the topics for which it matters: nobody in sync is alive."""
    topics = dict.fromkeys(each.topic for each in partitions if _lost_its_isr(context, each))
    configs = await store.topic_configs(list(topics))
    otherwise = str(default)
    return {
        topic: None
        for topic in topics
        if configs[topic].get(_PROPERTY, otherwise).lower() == "true"
    }


def _lost_its_isr(context: Context, partition: TopicPartition) -> bool:
    led = context.led.get(partition)
    return led is not None and not any(
        context.is_online(broker, partition) for broker in led.state.isr
    )


def warn_of_unclean(partition: TopicPartition, before: Led, now: Led) -> None:
    """Names what may be lost, and which brokers would still have it."""
    log.warning(
        "unclean election: records that only the replicas in sync had are lost "
        "partition=%s leader=%d leader_epoch=%d in_sync_before=%s",
        partition,
        now.state.leader,
        now.state.leader_epoch,
        list(before.state.isr),
    )
