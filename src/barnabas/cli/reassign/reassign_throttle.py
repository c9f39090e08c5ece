"""Replication throttles for reassignments: set before, removed after.

Kafka splits them into a rate per broker, and per topic the list of throttled replicas.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.base.errors import PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import (
    BROKER,
    TOPIC,
    alter_configs,
    config_change,
    topics_with_configs,
)
from barnabas.cli.raw_client import RawClient

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


def throttled_replicas(
    current: Mapping[TopicPartition, Sequence[int]], plan: Mapping[TopicPartition, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """Per topic, the throttled replicas of leaders (current ones) and followers (new ones)."""
    lists: dict[str, dict[str, list[str]]] = {}
    for partition, replicas in plan.items():
        here = current.get(partition, ())
        topic = lists.setdefault(partition.topic, {LEADERS: [], FOLLOWERS: []})
        topic[LEADERS] += [f"{partition.partition}:{broker}" for broker in here]
        topic[FOLLOWERS] += [
            f"{partition.partition}:{broker}" for broker in replicas if broker not in here
        ]
    return {
        topic: {key: ",".join(pairs) for key, pairs in found.items() if pairs}
        for topic, found in lists.items()
    }


async def set_throttles(
    client: RawClient,
    current: Mapping[TopicPartition, Sequence[int]],
    plan: Mapping[TopicPartition, Sequence[int]],
    bytes_per_second: int,
) -> None:
    """Throttle the plan's new replicas. Raises CommandFailed, some throttles possibly set."""
    lists = throttled_replicas(current, plan)
    changes = [config_change(TOPIC, topic, values) for topic, values in sorted(lists.items())]
    rates = dict.fromkeys(RATES, str(bytes_per_second))
    brokers = sorted((await client.metadata()).brokers, key=lambda broker: broker.node_id)
    for broker in brokers:
        change = config_change(BROKER, str(broker.node_id), rates)
        await alter_configs(client, broker.node_id, [change])
    await alter_configs(client, brokers[0].node_id, changes)


async def clear_throttles(client: RawClient) -> list[str]:
    """Remove all replication throttles; return the topics that had one.

    An offline broker keeps its rate, which has no effect without the topics' lists.
    """
    metadata = await client.metadata(None)
    for broker in metadata.brokers:
        change = config_change(BROKER, str(broker.node_id), dict.fromkeys(RATES))
        with contextlib.suppress(PeerGone):
            await alter_configs(client, broker.node_id, [change])
    names = sorted(topic.name for topic in metadata.topics)
    any_broker = metadata.brokers[0].node_id
    keys = (LEADERS, FOLLOWERS)
    throttled = await topics_with_configs(client, any_broker, names, keys)
    changes = [config_change(TOPIC, topic, dict.fromkeys(keys)) for topic in throttled]
    if changes:
        await alter_configs(client, any_broker, changes)
    return throttled
