"""Makes topics of one cluster in another, with their partitions and configs, and keeps them so."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.configs_command import alter_configs
from barnabas.cli.client import (
    Cluster,
    admin,
    await_all,
    create_partitions,
    create_topics,
    find_topic,
)

# What is said about brokers of the one cluster says nothing about those of the other; and records
# keep their own times only where arrival does not count.
NOT_COPIED: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "message.timestamp.type",
)
_MIN_IN_SYNC: Final = "min.insync.replicas"


class Shape(NamedTuple):
    """What is copied of a topic besides its records."""

    partitions: int
    replicas: int
    configs: Mapping[str, str]


def shape_of(cluster: Cluster, topic: str) -> Shape:
    """Raises CommandFailed if there is no such topic."""
    client, metadata = cluster.admin()
    found = find_topic(metadata, topic)
    replicas = max(len(each.replicas) for each in found.partitions.values())
    return Shape(len(found.partitions), replicas, _own_configs(client, topic))


def mirror_topic(target: Cluster, topic: str, wanted: Shape) -> Iterator[str]:
    """Let the topic be there with these partitions and configs; tells each thing that was done.

    Partitions are added, never removed. A config that is not set in the source is not set here.
    Raises  CommandFailed
    """
    client, metadata = target.admin()
    replicas = min(wanted.replicas, len(metadata.brokers))
    configs = {key: value for key, value in wanted.configs.items() if key not in NOT_COPIED}
    if int(configs.get(_MIN_IN_SYNC, "1")) > replicas:
        del configs[_MIN_IN_SYNC]
        yield f"{topic}: {_MIN_IN_SYNC} is not copied, since there are {replicas} replicas only"
    found = metadata.topics.get(topic)
    if found is None:
        new = admin.NewTopic(topic, wanted.partitions, replicas, config=configs)
        create_topics(client, [new])
        yield f"{topic}: made with {wanted.partitions} partitions and {replicas} replicas of each"
        return
    if len(found.partitions) < wanted.partitions:
        create_partitions(client, topic, wanted.partitions)
        yield f"{topic}: has {wanted.partitions} partitions now"
    current = _own_configs(client, topic)
    to_set = {key: value for key, value in configs.items() if current.get(key) != value}
    to_delete = [key for key in current if key not in (*configs, *NOT_COPIED)]
    if to_set or to_delete:
        alter_configs(client, admin.ResourceType.TOPIC, topic, to_set, to_delete)
        yield f"{topic}: configs changed: {', '.join(sorted([*to_set, *to_delete]))}"


def _own_configs(client: Any, topic: str) -> dict[str, str]:
    """What was set for this topic."""
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
    [entries] = await_all(client.describe_configs([resource]))
    sources = admin.ConfigSource
    return {
        name: entry.value
        for name, entry in sorted(entries.items())
        if sources(entry.source) == sources.DYNAMIC_TOPIC_CONFIG
    }
