"""The group of a streaming query, named by the query: from its tasks to its reader, by the cluster.

Spark gives a query's name to its tasks, in the description of their job, and not to the reader on
the driver, which commits the query's offsets. Both are clients of the same cluster. So the first
task commits one offset to a group that is named by a random token, with the name as its metadata;
the reader fetches it and deletes that group. No port is opened, and if it fails the query goes on.
"""

import contextlib
import re
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.base.randomness import Random
from barnabas.client.metadata import fields
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey

_PREFIX: Final = "spark-"
_NO_GENERATION: Final = -1
_PATIENCE_S: Final = 5.0  # a query does not wait longer for what it does not need
_ID: Final = re.compile(r"^id = (\S+)$", re.MULTILINE)


def new_token_group(random: Random) -> str:
    """A group that no other query uses."""
    return f"{_PREFIX}name-{random.uuid()}"


def send_query_group(token_group: str, partition: TopicPartition, options: SourceOptions) -> None:
    """A task's side: hand over the name of the query's group, if it can be known."""
    group = group_of(_job_description())
    if group is None:
        return
    with contextlib.suppress(SparkFailure), SparkCluster(options) as cluster:
        commit_offsets(cluster, token_group, _one_offset(partition, group))


def receive_query_group(cluster: SparkCluster, token_group: str) -> str | None:
    """The reader's side: the name of the query's group, None if no task has handed it over yet."""
    wanted = fields(group_id=token_group, topics=None)
    request = fields(groups=(wanted,), require_stable=False)
    try:
        response = cluster.ask_coordinator(
            token_group, ApiKey.OFFSET_FETCH, request, _PATIENCE_S, _first_group_error
        )
    except SparkFailure:
        return None
    names = [
        str(each.metadata)
        for topic in response.groups[0].topics
        for each in topic.partitions
        if each.metadata
    ]
    if not names:
        return None
    with contextlib.suppress(SparkFailure):
        emptied = fields(groups_names=(token_group,))
        cluster.ask_coordinator(token_group, ApiKey.DELETE_GROUPS, emptied, _PATIENCE_S)
    return names[0]


def commit_offsets(cluster: SparkCluster, group: str, topics: Any) -> None:
    """Commit as a client that is no member of the group. Raises SparkFailure."""
    request = fields(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=topics,
    )
    response = cluster.ask_coordinator(
        group, ApiKey.OFFSET_COMMIT, request, _PATIENCE_S, _first_partition_error
    )
    code = _first_partition_error(response)
    if code is not ErrorCode.none:
        raise SparkFailure(f"group {group}: {code.name}")


def _one_offset(partition: TopicPartition, metadata: str) -> Any:
    offset = fields(
        partition_index=partition.partition,
        committed_offset=0,
        committed_leader_epoch=-1,
        committed_metadata=metadata,
    )
    return (fields(name=partition.topic, partitions=(offset,)),)


def _first_group_error(response: Any) -> ErrorCode:
    code: ErrorCode = response.groups[0].error_code
    return code


def _first_partition_error(response: Any) -> ErrorCode:
    codes = (each.error_code for topic in response.topics for each in topic.partitions)
    return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)


def group_of(description: str | None) -> str | None:
    """The group by the description that Spark gives the jobs of a streaming query.

    Its first line is the query's name, empty if it has none; another line says `id = ...`.
    """
    found = _ID.search(description or "")
    if description is None or found is None:
        return None
    name = description.partition("\n")[0].strip()
    return _PREFIX + (name or found[1])


def _job_description() -> str | None:
    from pyspark import TaskContext

    task = TaskContext.get()
    return None if task is None else task.getLocalProperty("spark.job.description")
