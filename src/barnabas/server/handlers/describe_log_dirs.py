"""DescribeLogDirs (35): the partitions and the free space of each log directory."""

from collections.abc import Sequence

from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.log.log import Log
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: DescribeLogDirsRequest, _: Call
) -> DescribeLogDirsResponse:
    turns = Turns()
    is_all = request.topics is None
    logs = [*broker.logs, *broker.logs.futures] if is_all else await _of(broker, request, turns)
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results=tuple(
            [await _log_dir(broker, name, logs, turns) for name in list(broker.logs.log_dirs)]
        ),
    )


async def _of(broker: Broker, request: DescribeLogDirsRequest, turns: Turns) -> list[Log]:
    """The logs of the request's partitions: a broker may have ten thousands of others."""
    wanted = await turns.listed(
        TopicPartition(each.topic, n) for each in request.topics or () for n in each.partitions
    )
    found = await turns.listed(
        (broker.logs.get(each), broker.logs.futures.get(each)) for each in dict.fromkeys(wanted)
    )
    logs = (log for both in found for log in both if log is not None)
    return sorted(logs, key=lambda log: log.partition)


async def _log_dir(
    broker: Broker, log_dir: str, logs: Sequence[Log], turns: Turns
) -> DescribeLogDirsResult:
    try:
        if fault := broker.logs.offline.get(log_dir):
            raise fault
        space = broker.logs.log_dirs[log_dir].disk.space()
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        return DescribeLogDirsResult(
            error_code=ErrorCode.kafka_storage_error, log_dir=log_dir, topics=()
        )
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    async for log in turns.each(logs):
        topic, index = log.partition
        if log.disk.log_dir == log_dir:
            current = broker.logs.get(log.partition) or log
            by_topic.setdefault(topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=log.size_bytes,
                    offset_lag=max(0, current.log_end_offset - log.log_end_offset),
                    is_future_key=current is not log,
                )
            )
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=log_dir,
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in sorted(by_topic.items())
        ),
        total_bytes=space.total_bytes,
        usable_bytes=space.free_bytes,
    )
