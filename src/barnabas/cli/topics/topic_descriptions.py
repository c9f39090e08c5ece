"""Descriptions of topics: partitions with leaders, replicas, ISR and offsets; configs set."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

from barnabas.cli.client import admin, await_all, fail
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.show import counted, show_table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata, PartitionMetadata

Topic = dict[str, Any]
# Short, so that a dead leader does not hide its own failure.
_OFFSETS_TIMEOUT_S: Final = 5.0
_CONFIGS_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 6
_COLUMNS: Final = ("partition", "leader", "replicas", "isr", "earliest", "latest", "state")


def describe_topics(
    client: "AdminClient", metadata: "ClusterMetadata", names: list[str]
) -> list[Topic]:
    """A description of each topic.

    Offsets are None if the leader does not answer; configs and `min_isr` are None if the user may
    not see them.
    """
    partitions = [
        TopicPartition(name, partition)
        for name in names
        for partition, each in sorted(metadata.topics[name].partitions.items())
        if each.leader in metadata.brokers
    ]
    resources = [admin.ConfigResource(admin.ResourceType.TOPIC, name) for name in names]
    asked = [
        client.list_offsets(dict.fromkeys(partitions, where), request_timeout=_OFFSETS_TIMEOUT_S)
        for where in (admin.OffsetSpec.earliest(), admin.OffsetSpec.latest())
    ]
    configs = dict(zip(names, _configs(client, resources), strict=True))
    earliest, latest = map(_offsets, asked)
    ids = _topic_ids(client, names)
    described = []
    for name in names:
        topic, entries = metadata.topics[name], configs[name]
        min_isr = None if entries is None else int(entries["min.insync.replicas"].value)
        described.append(
            {
                "topic": name,
                "id": ids.get(name),
                "replication_factor": max(len(p.replicas) for p in topic.partitions.values()),
                "min_isr": min_isr,
                "configs": None
                if entries is None
                else {e.name: e.value for e in entries.values() if _is_set(e)},
                "partitions": [
                    {
                        "partition": number,
                        "leader": partition.leader,
                        "replicas": list(partition.replicas),
                        "isr": list(partition.isrs),
                        "offline": [b for b in partition.replicas if b not in metadata.brokers],
                        "earliest": earliest.get((name, number)),
                        "latest": latest.get((name, number)),
                        "states": states(
                            partition,
                            metadata.brokers,
                            min_isr,
                            answers=(name, number) in earliest and (name, number) in latest,
                        ),
                    }
                    for number, partition in sorted(topic.partitions.items())
                ],
            }
        )
    return described


def states(
    partition: "PartitionMetadata",
    brokers: Mapping[int, object],
    min_isr: int | None,
    *,
    answers: bool = True,
) -> list[str]:
    """The problems of a partition, named as the options that filter by them.

    `answers` is whether the leader returned its offsets. Without `min_isr` no state is about it.
    """
    in_sync = len(partition.isrs)
    replicas = len(partition.replicas)
    is_led = partition.leader in brokers
    # As the leader does: min.insync.replicas is limited to the number of replicas.
    enough = None if min_isr is None else min(min_isr, replicas)
    found = {
        "unavailable": not is_led,
        "leader does not answer": is_led and not answers,
        "under min isr": enough is not None and in_sync < enough,
        "at min isr": in_sync == enough,
        "under-replicated": in_sync < replicas,
    }
    return [state for state, holds in found.items() if holds]


def keep_only(topics: Sequence[Topic], wanted: Sequence[str]) -> list[Topic]:
    """The topics with partitions in one of these states, with only those partitions."""
    kept = []
    for topic in topics:
        partitions = [p for p in topic["partitions"] if any(s in p["states"] for s in wanted)]
        if partitions:
            kept.append({**topic, "partitions": partitions})
    return kept


def show_topic(topic: Topic) -> None:
    facts = [
        counted(len(topic["partitions"]), "partition"),
        f"replication factor {topic['replication_factor']}",
        *([f"id {topic['id']}"] if topic["id"] else []),
    ]
    print(f"topic {topic['topic']}: {', '.join(facts)}")
    for key, value in sorted((topic["configs"] or {}).items()):
        print(f"  {key}={value}")
    show_table(_COLUMNS, [_row(partition) for partition in topic["partitions"]])
    print()


def _row(partition: Mapping[str, Any]) -> list[object]:
    leader = partition["leader"]
    cells = {
        **partition,
        "leader": leader if leader >= 0 else None,
        "replicas": ",".join(map(str, partition["replicas"])),
        "isr": ",".join(map(str, partition["isr"])),
        "state": state_words(partition),
    }
    return [cells[column] for column in _COLUMNS]


def without_healthy_states(topic: Topic) -> Topic:
    return {
        **topic,
        "partitions": [{**each, "states": problems(each)} for each in topic["partitions"]],
    }


def problems(partition: Mapping[str, Any]) -> list[str]:
    """The states without `at min isr` if all replicas are in sync."""
    is_whole = len(partition["isr"]) == len(partition["replicas"])
    return [s for s in partition["states"] if not (is_whole and s == "at min isr")]


def state_words(partition: Mapping[str, Any]) -> str:
    """`ok`, or the problems."""
    words = problems(partition)
    if partition["offline"]:
        words.append(f"offline {','.join(map(str, partition['offline']))}")
    return ", ".join(words) or "ok"


def _configs(client: "AdminClient", resources: list[admin.ConfigResource]) -> list[Any]:
    """The configs of each, None if the user may not see them.

    Retries, since librdkafka asks a controller that may have died.
    """
    for _ in range(_ATTEMPTS):
        asked = client.describe_configs(resources, request_timeout=_CONFIGS_TIMEOUT_S)
        try:
            return [_if_allowed(future) for future in asked.values()]
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._TIMED_OUT:
                fail(failure.args[0], "the topics' configs")
        client.list_topics(timeout=_CONFIGS_TIMEOUT_S)  # refreshes the controller
    raise CommandFailed("the controller does not answer; see `barnabas controller`")


def _if_allowed(configs: "Future[Any]") -> Any:
    try:
        return configs.result()
    except KafkaException as failure:
        if failure.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return None
        raise


def _offsets(asked: "Mapping[TopicPartition, Future[Any]]") -> dict[tuple[str, int], int]:
    found = {}
    for partition, future in asked.items():
        try:
            offset = future.result().offset
        except KafkaException:
            continue
        if offset >= 0:  # negative if the leader did not answer
            found[partition.topic, partition.partition] = offset
    return found


def _is_set(entry: Any) -> bool:
    source = admin.ConfigSource
    return bool(source(entry.source) == source.DYNAMIC_TOPIC_CONFIG)


def _topic_ids(client: "AdminClient", names: list[str]) -> dict[str, str]:
    """The id of each topic, in Kafka's URL-safe base64."""
    answers = await_all(client.describe_topics(TopicCollection(names)))
    return {a.name: str(a.topic_id).replace("+", "-").replace("/", "_") for a in answers}
