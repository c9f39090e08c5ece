"""Topics as pages show them: partitions, offsets, sizes, configs, producers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import BROKER, TOPIC
from barnabas.client.metadata import fields
from barnabas.console.cluster.bulk_requests import describe_log_dirs, read_log_dirs
from barnabas.console.cluster.console_client import (
    CLIENT_ID,
    EARLIEST,
    LATEST,
    ConsoleClient,
    check,
)
from barnabas.console.cluster.topic_index import PartitionRow, TopicRow, read_partitions
from barnabas.wire.apis import ApiKey

_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "server.properties",
    5: "default",
    6: "logger",
}
_DEFAULT: Final = 5


class Sizes(NamedTuple):
    """The bytes of each replica, and of each topic in all replicas."""

    replicas: dict[tuple[TopicPartition, int], int]
    offset_lag: dict[tuple[TopicPartition, int], int]

    def of_topic(self, topic: str) -> int | None:
        return self.by_topic().get(topic)

    def by_topic(self) -> dict[str, int]:
        """The bytes of each topic of which a broker reported any."""
        found: dict[str, int] = {}
        for (at, _), size in self.replicas.items():
            found[at.topic] = found.get(at.topic, 0) + size
        return found


class TopicOffsets(NamedTuple):
    """Log start and log end offsets of the partitions whose leaders answered."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]

    def messages(self) -> int | None:
        """The number of offsets in partitions whose leaders answered; None if none did."""
        known = [self.latest[at] - self.earliest[at] for at in self.latest if at in self.earliest]
        return sum(known) if known else None


class ConfigRow(NamedTuple):
    """One config of a topic or a broker."""

    name: str
    value: str | None
    source: str
    default: str | None
    is_changed: bool
    is_read_only: bool
    is_sensitive: bool
    documentation: str


def leaders_of(rows: Iterable[TopicRow]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(row.name, each.partition): each.leader
        for row in rows
        for each in read_partitions(row)
    }


def replicas_of(rows: Iterable[TopicRow]) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(row.name, each.partition): each.replicas
        for row in rows
        for each in read_partitions(row)
    }


async def read_offsets(
    client: ConsoleClient, leaders: Mapping[TopicPartition, int]
) -> TopicOffsets:
    """The log start and log end offsets of these partitions."""
    earliest = await client.offsets(leaders, leaders, EARLIEST)
    latest = await client.offsets(leaders, leaders, LATEST)
    return TopicOffsets(earliest, latest)


async def read_sizes(
    client: ConsoleClient, replicas: Mapping[TopicPartition, Sequence[int]]
) -> Sizes:
    """The sizes of these replicas, as far as brokers answer."""
    wanted: dict[int, list[TopicPartition]] = {}
    for at, brokers in replicas.items():
        for broker in brokers:
            wanted.setdefault(broker, []).append(at)
    alive = (await client.view()).ids
    frames = {
        broker: describe_log_dirs(CLIENT_ID, partitions)
        for broker, partitions in wanted.items()
        if broker in alive
    }
    sizes: dict[tuple[TopicPartition, int], int] = {}
    lags: dict[tuple[TopicPartition, int], int] = {}
    for broker, found in (await client.ask_by_hand(frames, read_log_dirs)).items():
        for at, (size, lag) in found.items():
            sizes[at, broker], lags[at, broker] = size, lag
    return Sizes(sizes, lags)


async def read_configs(
    client: ConsoleClient, kind: int, name: str, keys: Sequence[str] | None = None
) -> list[ConfigRow]:
    """Every config of a topic or a broker, or those named: value, source, default and meaning."""
    wanted = None if keys is None else tuple(keys)
    request = fields(
        resources=(fields(resource_type=kind, resource_name=name, configuration_keys=wanted),),
        include_synonyms=True,
        include_documentation=True,
    )
    broker = int(name) if kind == BROKER else (await client.view()).ids[0]
    answer = await client.ask_broker(broker, ApiKey.DESCRIBE_CONFIGS, request)
    (result,) = answer.results
    check(result, f"the configs of {name}")
    return sorted(_config(each) for each in result.configs)


def _config(each: Any) -> ConfigRow:
    defaults = [synonym.value for synonym in each.synonyms if synonym.source == _DEFAULT]
    default = defaults[0] if defaults else (each.value if each.config_source == _DEFAULT else None)
    return ConfigRow(
        each.name,
        each.value,
        _SOURCES.get(each.config_source, "unknown"),
        default,
        each.config_source != _DEFAULT,
        each.read_only,
        each.is_sensitive,
        each.documentation or "",
    )


async def read_topic_configs(client: ConsoleClient, topic: str) -> list[ConfigRow]:
    return await read_configs(client, TOPIC, topic)


class ProducerRow(NamedTuple):
    """A producer that has written to a partition, and its open transaction, if there is one."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int


async def read_producers(
    client: ConsoleClient, topics: Mapping[str, Sequence[PartitionRow]]
) -> list[ProducerRow]:
    """The producers of these partitions, as far as leaders answer."""
    wanted: dict[int, dict[str, list[int]]] = {}
    for topic, partitions in topics.items():
        for row in partitions:
            if row.leader >= 0:
                wanted.setdefault(row.leader, {}).setdefault(topic, []).append(row.partition)
    requests = {
        leader: fields(
            topics=tuple(
                fields(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in by_topic.items()
            )
        )
        for leader, by_topic in wanted.items()
    }
    answers, _ = await client.ask_all(requests, ApiKey.DESCRIBE_PRODUCERS)
    return sorted(
        ProducerRow(
            found.name,
            partition.partition_index,
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for answer in answers.values()
        for found in answer.topics
        for partition in found.partitions
        if partition.error_code is ErrorCode.none
        for each in partition.active_producers
    )
