"""DescribeTopicPartitions (75): topics page by page, for clusters with many (KIP-966)."""

from collections.abc import Iterator

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.cluster.metadata_cache import (
    MetadataCache,
    PartitionImage,
    TopicImage,
    is_internal,
)
from barnabas.server.cluster.topic_names import check_topic_name
from barnabas.server.requests.access import NOT_ASKED, authorized_operations
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    """Topics in order of their names, from the cursor on, until the limit is reached."""
    if not _is_valid(request):
        return _refused(request)
    limit = max(
        1,
        min(
            request.response_partition_limit,
            broker.configs.broker.int("max.request.partition.size.limit"),
        ),
    )
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor = None
    for name, first in _in_order(broker, request):
        if limit == 0:
            next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        if not call.access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            if request.topics:
                topics.append(_failed(name, ErrorCode.topic_authorization_failed))
                limit -= 1
            continue
        image = broker.metadata.topic(name)
        if image is None:
            topics.append(_unknown(name))
            limit -= 1
            continue
        wanted = [(i, p) for i, p in sorted(image.partitions.items()) if i >= first]
        topics.append(_known(broker.metadata, image, wanted[:limit], call))
        if len(wanted) > limit:
            next_cursor = Cursor(topic_name=name, partition_index=wanted[limit][0])
            break
        limit -= len(wanted)
    return DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=next_cursor
    )


def _is_valid(request: DescribeTopicPartitionsRequest) -> bool:
    """True if the cursor, if any, points into the topics that are asked for."""
    cursor = request.cursor
    if cursor is None:
        return True
    names = {topic.name for topic in request.topics}
    return cursor.partition_index >= 0 and (not names or cursor.topic_name in names)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(_failed(topic.name, ErrorCode.invalid_request) for topic in request.topics),
        next_cursor=None,
    )


def _in_order(broker: Broker, request: DescribeTopicPartitionsRequest) -> Iterator[tuple[str, int]]:
    """Each wanted topic and the first of its partitions to describe."""
    if request.topics:
        names = sorted({topic.name for topic in request.topics})
    else:
        names = [topic.name for topic in broker.metadata.topics()]
    cursor = request.cursor
    for name in names:
        if cursor is None or name > cursor.topic_name:
            yield name, 0
        elif name == cursor.topic_name:
            yield name, cursor.partition_index


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.unknown_topic_or_partition
    try:
        check_topic_name(name)
    except BrokerError as e:
        code = e.code
    return _failed(name, code)


def _failed(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=is_internal(name),
        partitions=(),
        topic_authorized_operations=NOT_ASKED,
    )


def _known(
    cache: MetadataCache,
    topic: TopicImage,
    partitions: list[tuple[int, PartitionImage]],
    call: Call,
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            DescribeTopicPartitionsResponsePartition(
                error_code=cache.error_of(partition, call.connection.listener),
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=(),
                last_known_elr=(),
                offline_replicas=cache.replicas_gone(partition),
            )
            for index, partition in partitions
        ),
        topic_authorized_operations=authorized_operations(
            call.access, ResourceType.TOPIC, topic.name
        ),
    )
