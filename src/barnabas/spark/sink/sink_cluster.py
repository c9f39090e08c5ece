"""Requests that only writes need: producer ids, topics created and deleted, records deleted."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.metadata import TopicInfo, fields
from barnabas.client.retries import Ask, RetriableError, Steps, attempts
from barnabas.spark.sink.batch_sender import ProducerId
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey

_MOST_REPLICAS: Final = 3
_CHANGED_WITHIN_MS: Final = 30_000


def new_producer_id(options: SourceOptions) -> ProducerId:
    """An id that no other producer has. Raises SparkFailure, if no broker gives one."""
    request = fields(
        transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
    )
    with SparkCluster(options) as cluster:

        def attempt() -> Steps[ProducerId]:
            given = yield from cluster.metadata.ask_any(ApiKey.INIT_PRODUCER_ID, request)
            if given.error_code is not ErrorCode.none:
                raise RetriableError(given.error_code.name)
            return ProducerId(given.producer_id, given.producer_epoch)

        return cluster.until_settled(attempt, "no broker gives out a producer id")


def partition_count(options: SourceOptions, topic: str) -> int:
    """The topic's number of partitions; a broker with automatic creation creates the topic.

    Raises  SparkFailure, if there is none, or no broker answers
    """
    with SparkCluster(options) as cluster:
        if topic in (found := cluster.topics((topic,))):
            return len(found[topic].partitions)

        def attempt() -> Steps[int]:
            created = (yield from cluster.metadata.refresh((topic,), create=True))[topic]
            if created.error is ErrorCode.invalid_topic_exception:
                raise SparkFailure(f"no topic can have the name {topic!r}")
            if created.error is not ErrorCode.none:
                raise RetriableError("")
            return len(created.partitions)

        missing = f"there is no topic {topic}; make it with `barnabas topics create {topic}`"
        return cluster.until_settled(attempt, missing)


def create_topic(
    options: SourceOptions, topic: str, partitions: int, configs: Mapping[str, str]
) -> None:
    """Create a topic with up to three replicas, unless it exists. Raises SparkFailure."""
    with SparkCluster(options) as cluster:

        def attempt() -> Steps[None]:
            yield from cluster.metadata.refresh(())
            wanted = fields(
                name=topic,
                num_partitions=partitions,
                replication_factor=min(_MOST_REPLICAS, len(cluster.metadata.brokers)),
                assignments=(),
                configs=tuple(fields(name=name, value=value) for name, value in configs.items()),
            )
            request = fields(topics=(wanted,), timeout_ms=_CHANGED_WITHIN_MS, validate_only=False)
            response = yield from cluster.metadata.ask_controller(
                ApiKey.CREATE_TOPICS, request, attempts(1)
            )
            (created,) = response.topics
            if created.error_code in (ErrorCode.not_controller, ErrorCode.request_timed_out):
                raise RetriableError(created.error_code.name)
            if created.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
                why = created.error_message or created.error_code.name.replace("_", " ")
                raise SparkFailure(f"topic {topic} cannot be made: {why}")

        cluster.until_settled(attempt, f"topic {topic} cannot be made: no controller answers")


def delete_topic(options: SourceOptions, topic: str) -> None:
    """Tried once; a topic that cannot be deleted now is left behind."""
    request = fields(topic_names=(topic,), timeout_ms=_CHANGED_WITHIN_MS)
    with SparkCluster(options) as cluster, suppress(PeerGone, RetriableError):
        cluster.once(cluster.metadata.ask_controller(ApiKey.DELETE_TOPICS, request, attempts(1)))


def delete_records(options: SourceOptions, topic: TopicInfo, before: Mapping[int, int]) -> None:
    """Delete the records before these offsets, by partition; tried once at each leader."""
    with SparkCluster(options) as cluster:
        for partition, offset in before.items():
            leader = topic.leader(partition)
            if leader is None:
                continue
            wanted = fields(partition_index=partition, offset=offset)
            request = fields(
                topics=(fields(name=topic.name, partitions=(wanted,)),),
                timeout_ms=_CHANGED_WITHIN_MS,
            )
            with suppress(PeerGone):
                cluster.once(_asked(Ask(leader.address, ApiKey.DELETE_RECORDS, request)))


def _asked(ask: Ask) -> Steps[None]:
    yield ask
