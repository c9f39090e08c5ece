"""The end markers of transactions, written to the partitions that this broker leads.

Each marker is one append to its partition, as acks=all. In a partition of `__consumer_offsets` the
group coordinator appends it: the transaction's offsets count, or are dropped, before the result
(KAFKA-17507).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.coordinator.result import TransactionEnd
from barnabas.server.cluster.configs import Configs
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC

Results: TypeAlias = Mapping[TopicPartition, ErrorCode]
EndInGroups: TypeAlias = Callable[[int, TransactionEnd], "asyncio.Future[ErrorCode]"]

# A transaction coordinator knows no errors of group coordinators: it tries again at the leader.
_FROM_GROUPS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.not_coordinator: ErrorCode.not_leader_or_follower,
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_leader_or_follower,
    ErrorCode.coordinator_not_available: ErrorCode.not_leader_or_follower,
}


class MarkerWriter:
    """Appends markers as leader, at the request of a coordinator here or on another broker."""

    def __init__(
        self,
        ports: CoordinatorPorts,
        configs: Configs,
        end_in_groups: EndInGroups,
        safeguards: Safeguards = IN_FORCE,
    ) -> None:
        """`end_in_groups` ends a transaction in a partition of `__consumer_offsets`."""
        self._ports = ports
        self._configs = configs
        self._end_in_groups = end_in_groups
        self._awaits_replicas = safeguards.replicate_markers

    def begin(
        self, end: TransactionEnd, partitions: Iterable[TopicPartition]
    ) -> "dict[TopicPartition, asyncio.Future[ErrorCode]]":
        """Append the markers, to the leader of each name now; results come with their commits."""
        return {at: self._append(at, end) for at in partitions}

    async def write(self, end: TransactionEnd, partitions: Iterable[TopicPartition]) -> Results:
        """The error code of each partition, once its marker is committed."""
        return await written(self.begin(end, partitions))

    def write_at_once(self, at: TopicPartition, end: TransactionEnd) -> ErrorCode | None:
        """Append a marker that is committed on return; its error code.

        None, and nothing was tried, if it would have to wait. A marker that was tried and failed
        may be in the log all the same.
        """
        ports = self._ports
        if at.topic == OFFSETS_TOPIC:
            return None
        if self._awaits_replicas and not ports.writer.is_sole(at):
            return None
        try:
            ports.writer.append_marker(at, end, ports.clock.now_ms())
        except BrokerError as e:
            return e.code
        except DiskFault as fault:
            ports.failures.disk_failed(fault)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    def _append(self, at: TopicPartition, end: TransactionEnd) -> "asyncio.Future[ErrorCode]":
        result: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def done(code: ErrorCode) -> None:
            if not result.done():  # else the request was cancelled
                result.set_result(code)

        ports = self._ports
        try:
            if at.topic == OFFSETS_TOPIC:
                return self._end_in_groups(at.partition, end)
            until = ports.writer.append_marker(at, end, ports.clock.now_ms())
            timeout_ms = self._configs.broker.int("request.timeout.ms")
            ports.writer.when_committed(at, until, timeout_ms, done)
        except BrokerError as e:
            done(e.code)
        except DiskFault as fault:
            ports.failures.disk_failed(fault)
            done(ErrorCode.kafka_storage_error)
        return result


async def written(begun: "Mapping[TopicPartition, asyncio.Future[ErrorCode]]") -> Results:
    """The error code of each partition, once its marker is committed."""
    return {at: await _code(at, result) for at, result in begun.items()}


async def _code(at: TopicPartition, result: "asyncio.Future[ErrorCode]") -> ErrorCode:
    try:
        code = await result
    except BrokerError as e:
        code = e.code
    return _FROM_GROUPS.get(code, code) if at.topic == OFFSETS_TOPIC else code
