"""The topics of a mirror: created in the target, with partitions and configs kept in sync."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.configs_command import alter_configs
from barnabas.cli.client import (
    ClusterClients,
    admin,
    await_all,
    create_partitions,
    create_topics,
    find_topic,
)

# Throttled replicas name brokers of the source; and with LogAppendTime in the target, records would
# lose their timestamps.
NOT_COPIED: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "message.timestamp.type",
)
_MIN_IN_SYNC: Final = "min.insync.replicas"


class TopicShape(NamedTuple):
    """The properties of a topic that the mirror copies."""

    partitions: int
    replicas: int
    configs: Mapping[str, str]


def shape_of(cluster: ClusterClients, topic: str) -> TopicShape:
    """Raises CommandFailed if the topic does not exist."""
    client, metadata = cluster.admin()
    found = find_topic(metadata, topic)
    replicas = max(len(each.replicas) for each in found.partitions.values())
    return TopicShape(len(found.partitions), replicas, _own_configs(client, topic))


def mirror_topic(target: ClusterClients, topic: str, wanted: TopicShape) -> Iterator[str]:
    """Create or update the topic; yield a line for each change.

    Partitions are added, never removed. A config that the source does not set is unset.
    Raises  CommandFailed
    """
    client, metadata = target.admin()
    replicas = min(wanted.replicas, len(metadata.brokers))
    configs = {key: value for key, value in wanted.configs.items() if key not in NOT_COPIED}
    if int(configs.get(_MIN_IN_SYNC, "1")) > replicas:
        del configs[_MIN_IN_SYNC]
        yield f"{topic}: {_MIN_IN_SYNC} not copied: only {replicas} replicas"
    found = metadata.topics.get(topic)
    if found is None:
        new = admin.NewTopic(topic, wanted.partitions, replicas, config=configs)
        create_topics(client, [new])
        yield f"{topic}: created with {wanted.partitions} partitions and {replicas} replicas"
        return
    if len(found.partitions) < wanted.partitions:
        create_partitions(client, topic, wanted.partitions)
        yield f"{topic}: increased to {wanted.partitions} partitions"
    current = _own_configs(client, topic)
    to_set = {key: value for key, value in configs.items() if current.get(key) != value}
    to_delete = [key for key in current if key not in (*configs, *NOT_COPIED)]
    if to_set or to_delete:
        alter_configs(client, admin.ResourceType.TOPIC, topic, to_set, to_delete)
        yield f"{topic}: configs changed: {', '.join(sorted([*to_set, *to_delete]))}"


def _own_configs(client: Any, topic: str) -> dict[str, str]:
    """The configs that are set for this topic."""
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
    [entries] = await_all(client.describe_configs([resource]))
    sources = admin.ConfigSource
    return {
        name: entry.value
        for name, entry in sorted(entries.items())
        if sources(entry.source) == sources.DYNAMIC_TOPIC_CONFIG
    }
