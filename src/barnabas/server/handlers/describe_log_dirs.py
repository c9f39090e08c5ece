"""DescribeLogDirs (35): the partitions and the free space of each log directory."""

from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


def handle(broker: Broker, request: DescribeLogDirsRequest, _: Call) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results=tuple(_log_dir(broker, name, wanted) for name in broker.logs.log_dirs),
    )


def _log_dir(
    broker: Broker, log_dir: str, wanted: set[tuple[str, int]] | None
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
    for log in (*broker.logs, *broker.logs.futures):
        topic, index = log.partition
        if log.disk.log_dir == log_dir and (wanted is None or log.partition in wanted):
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
