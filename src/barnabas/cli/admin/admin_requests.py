"""Administrative requests of Kafka's protocol, and their responses in plain types."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_log_dirs.v4.request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition as Partition
from barnabas.base.ids import by_topic
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.client.retries import error_words
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.describe_controller import DescribeControllerRequest

TOPIC: Final = 2
BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
_DYNAMIC_TOPIC_CONFIG: Final = 1


class PartitionOutcome(NamedTuple):
    """The outcome of a request for one partition."""

    partition: Partition
    code: ErrorCode
    message: str | None


class Moving(NamedTuple):
    """A partition that is being reassigned."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def elect_leaders(
    client: RawClient, partitions: Sequence[Partition] | None, *, unclean: bool
) -> list[PartitionOutcome]:
    """Elect leaders of these partitions, or of all. Returns the outcome of each."""
    wanted = None
    if partitions is not None:
        wanted = tuple(
            TopicPartitions(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(partitions).items()
        )
    request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=wanted)
    answer = await client.ask_controller(ApiKey.ELECT_LEADERS, request)
    _check(answer, "the election")
    return [
        PartitionOutcome(
            Partition(topic.topic, each.partition_id), each.error_code, each.error_message
        )
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]


async def alter_reassignments(
    client: RawClient, plan: Mapping[Partition, Sequence[int] | None]
) -> list[PartitionOutcome]:
    """Start these reassignments; cancel those whose replicas are None."""
    request = AlterPartitionReassignmentsRequest(
        topics=tuple(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(partition_index=number, replicas=_tuple(replicas))
                    for number in numbers
                    for replicas in [plan[Partition(topic, number)]]
                ),
            )
            for topic, numbers in by_topic(plan).items()
        )
    )
    answer = await client.ask_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    _check(answer, "the reassignment")
    return [
        PartitionOutcome(
            Partition(topic.name, each.partition_index), each.error_code, each.error_message
        )
        for topic in answer.responses
        for each in topic.partitions
    ]


def _tuple(replicas: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if replicas is None else tuple(replicas)


async def list_reassignments(client: RawClient) -> dict[Partition, Moving]:
    """All partitions that are being reassigned now."""
    request = ListPartitionReassignmentsRequest(topics=None)
    answer = await client.ask_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, request)
    _check(answer, "the list of reassignments")
    return {
        Partition(topic.name, each.partition_index): Moving(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in answer.topics
        for each in topic.partitions
    }


async def replica_sizes(
    client: RawClient, broker_id: int, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """The bytes that a broker has of each of these partitions. Raises PeerGone."""
    answer = await client.ask(broker_id, ApiKey.DESCRIBE_LOG_DIRS, _described(partitions))
    return {
        Partition(topic.name, each.partition_index): each.partition_size
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }


def _described(partitions: Iterable[Partition]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=tuple(
            DescribableLogDirTopic(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(partitions).items()
        )
    )


async def replica_log_dirs(
    client: RawClient, broker_id: int, partitions: Iterable[Partition]
) -> dict[Partition, str]:
    """The log directory of each of these replicas of a broker. Raises PeerGone."""
    answer = await client.ask(broker_id, ApiKey.DESCRIBE_LOG_DIRS, _described(partitions))
    return {
        Partition(topic.name, each.partition_index): result.log_dir
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }


async def alter_log_dirs(
    client: RawClient, broker_id: int, log_dirs: Mapping[Partition, str]
) -> list[PartitionOutcome]:
    """Move replicas of a broker to other log directories of it. Raises PeerGone."""
    by_path: dict[str, list[Partition]] = {}
    for partition, path in log_dirs.items():
        by_path.setdefault(path, []).append(partition)
    request = AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=topic, partitions=tuple(numbers))
                    for topic, numbers in by_topic(partitions).items()
                ),
            )
            for path, partitions in by_path.items()
        )
    )
    answer = await client.ask(broker_id, ApiKey.ALTER_REPLICA_LOG_DIRS, request)
    return [
        PartitionOutcome(partition, each.error_code, f"broker {broker_id}, {log_dirs[partition]}")
        for topic in answer.results
        for each in topic.partitions
        for partition in [Partition(topic.topic_name, each.partition_index)]
    ]


async def describe_controller(client: RawClient) -> dict[str, Any]:
    """The controller's own description; Apache Kafka's controller has none."""
    try:
        answer = await client.ask_controller(
            ApiKey.DESCRIBE_CONTROLLER, DescribeControllerRequest()
        )
    except CommandFailed as failure:
        raise CommandFailed(f"{failure} (only Barnabas describes its controller)") from None
    _check(answer, "the controller")
    state = json.loads(answer.state)
    assert isinstance(state, dict)
    return state


def config_change(
    resource_type: int, name: str, values: Mapping[str, str | None]
) -> AlterConfigsResource:
    """Set these configs of a topic or a broker; None removes a config, so its default applies."""
    return AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=tuple(
            AlterableConfig(
                name=key, config_operation=_DELETE if value is None else _SET, value=value
            )
            for key, value in values.items()
        ),
    )


async def alter_configs(
    client: RawClient, broker_id: int, changes: Iterable[AlterConfigsResource]
) -> None:
    """Send the changes to one broker. Raises PeerGone, or CommandFailed for the first refused."""
    request = IncrementalAlterConfigsRequest(resources=tuple(changes), validate_only=False)
    answer = await client.ask(broker_id, ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    for each in answer.responses:
        _check(each, f"the configs of {each.resource_name}")


async def topics_with_configs(
    client: RawClient, broker_id: int, topics: Sequence[str], keys: Sequence[str]
) -> list[str]:
    """The topics that have at least one of these configs set. Raises PeerGone."""
    resources = tuple(
        DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=tuple(keys)
        )
        for topic in topics
    )
    answer = await client.ask(
        broker_id, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources)
    )
    return [
        each.resource_name
        for each in answer.results
        if any(config.config_source == _DYNAMIC_TOPIC_CONFIG for config in each.configs)
    ]


def _check(answer: Any, subject: str) -> None:
    if answer.error_code is not ErrorCode.none:
        message = getattr(answer, "error_message", None)
        raise CommandFailed(f"{subject}: {error_words(answer.error_code, message)}")
