"""Admin operations, sent to the current controller; they return error codes only."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.wire.apis import ApiKey
from tests.support.agreement import elected
from tests.support.asking import ask, parts
from tests.support.cluster import Cluster, until

PATIENCE: Final = timedelta(seconds=30)
TOPIC, BROKER = 2, 4
PREFERRED, UNCLEAN = 0, 1

Target = Sequence[int] | None  # None: cancel the reassignment


def ask_controller(cluster: Cluster, key: ApiKey, **fields: Any) -> Any:
    """The controller's response; retried until there is one."""
    answers: list[Any] = []

    def answered() -> bool:
        number = cluster.controller()
        answers[:] = [ask(cluster.brokers[number].port, key, within_s=40, **fields)]
        return getattr(answers[0], "error_code", None) is not ErrorCode.not_controller

    until(answered, f"an answer to {key.name}")
    return answers[0]


def next_controller(cluster: Cluster, past: int) -> int:
    """The next controller, as soon as /controller exists again."""
    found: list[int | None] = []

    def another() -> bool:
        found[:] = [elected(cluster.zookeeper)]
        return found[0] not in (None, past)

    until(another, "another controller")
    assert found[0] is not None
    return found[0]


def create(
    cluster: Cluster,
    name: str,
    partitions: int = 3,
    replicas: int = 3,
    *,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
) -> ErrorCode:
    answer = ask_controller(
        cluster,
        ApiKey.CREATE_TOPICS,
        topics=(new_topic(name, partitions, replicas, assignment, configs),),
        timeout=PATIENCE,
    )
    return _code(answer.topics[0])


def new_topic(
    name: str,
    partitions: int,
    replicas: int,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
) -> Any:
    return parts(
        name=name,
        num_partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else replicas,
        assignments=tuple(
            parts(partition_index=index, broker_ids=tuple(brokers))
            for index, brokers in enumerate(assignment)
        ),
        configs=tuple(parts(name=k, value=v) for k, v in (configs or {}).items()),
    )


def grow(cluster: Cluster, name: str, count: int) -> ErrorCode:
    topic = parts(name=name, count=count, assignments=None)
    answer = ask_controller(cluster, ApiKey.CREATE_PARTITIONS, topics=(topic,), timeout=PATIENCE)
    return _code(answer.results[0])


def delete(cluster: Cluster, name: str, within: timedelta = PATIENCE) -> ErrorCode:
    """With a timeout of 0 it is only requested."""
    answer = ask_controller(
        cluster,
        ApiKey.DELETE_TOPICS,
        topics=(parts(name=name, topic_id=None),),
        timeout=within,
    )
    return _code(answer.responses[0])


def reassign(cluster: Cluster, targets: Mapping[TopicPartition, Target]) -> list[ErrorCode]:
    answer = ask_controller(
        cluster,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        topics=tuple(
            parts(
                name=each.topic,
                partitions=(
                    parts(
                        partition_index=each.partition,
                        replicas=None if target is None else tuple(target),
                    ),
                ),
            )
            for each, target in targets.items()
        ),
        timeout=PATIENCE,
    )
    assert answer.error_code is ErrorCode.none, answer
    codes = {
        TopicPartition(topic.name, each.partition_index): _code(each)
        for topic in answer.responses
        for each in topic.partitions
    }
    return [codes[each] for each in targets]


def reassigning(cluster: Cluster) -> dict[TopicPartition, tuple[list[int], list[int], list[int]]]:
    """The reassignments: replicas, adding and removing."""
    answer = ask_controller(
        cluster, ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None, timeout=PATIENCE
    )
    assert answer.error_code is ErrorCode.none, answer
    return {
        TopicPartition(topic.name, each.partition_index): (
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def elect(
    cluster: Cluster, kind: int, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, ErrorCode]:
    asked = None
    if partitions is not None:
        asked = tuple(parts(topic=p.topic, partitions=(p.partition,)) for p in partitions)
    answer = ask_controller(
        cluster,
        ApiKey.ELECT_LEADERS,
        election_type=kind,
        topic_partitions=asked,
        timeout=PATIENCE,
    )
    assert answer.error_code is ErrorCode.none, answer
    return {
        TopicPartition(topic.topic, each.partition_id): _code(each)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def set_configs(cluster: Cluster, kind: int, name: str, values: Mapping[str, str | None]) -> None:
    """None resets to the default."""
    number = int(name) if kind == BROKER else cluster.controller()
    configs = tuple(
        parts(name=key, value=value, config_operation=0 if value is not None else 1)
        for key, value in values.items()
    )
    resource = parts(resource_type=kind, resource_name=name, configs=configs)
    port = cluster.brokers[number].port
    answer = ask(port, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,), validate_only=False)
    assert _code(answer.responses[0]) is ErrorCode.none, answer


def throttle(cluster: Cluster, topic: str, bytes_per_second: int | None) -> None:
    """Throttle the replication of a topic to this rate; None removes the throttle."""
    rate = None if bytes_per_second is None else str(bytes_per_second)
    for number in cluster.running:
        rates = dict.fromkeys(
            ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), rate
        )
        set_configs(cluster, BROKER, str(number), rates)
    replicas = dict.fromkeys(
        ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
        None if rate is None else "*",
    )
    set_configs(cluster, TOPIC, topic, replicas)


def partitions(cluster: Cluster, topic: str) -> dict[int, Any]:
    """The partitions of a topic in some broker's metadata; none for an unknown topic."""
    number = next(iter(cluster.running))
    return {
        each.partition_index: each
        for told in cluster.metadata(number).topics
        if told.name == topic
        for each in told.partitions
    }


def _code(answer: Any) -> ErrorCode:
    code = answer.error_code
    assert isinstance(code, ErrorCode)
    return code
