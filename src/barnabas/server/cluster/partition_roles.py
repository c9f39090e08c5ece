"""The roles of this broker's replicas, as LeaderAndIsr and StopReplica set them.

A replica that changes its role becomes another object, and the requests that waited for the old
one are answered. The broker carries out one request of a controller at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from barnabas.disk.disk import Disk
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.leadership import Leadership
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.role_changes import RoleChanges
from barnabas.server.cluster.topic_names import check_topic_name
from barnabas.server.environment import Environment
from barnabas.server.maintenance.delayed_removals import DelayedRemovals
from barnabas.wire.control.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.control.stop_replica import StopReplicaPartitionState, StopReplicaRequest

log = logging.getLogger("barnabas.partitions")

# In place of a leader epoch: the topic goes, whatever the epoch; or the sender knows none.
EPOCH_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1
# After so many partitions others get their turn. One whose log is created counts as eight: its
# directory and files take a millisecond.
AT_ONCE: Final = 16
CREATION: Final = 8

Codes = dict[TopicPartition, ErrorCode]
Check = Callable[[], None]


class Fetching(Protocol):
    """Copies from leaders; see `replication.follower.fetcher.ReplicaFetchers`."""

    def follow(self, follower: FollowerReplica, host: str, port: int, /) -> None: ...

    def stop(self, partition: TopicPartition, /) -> None: ...


class PartitionRoles:
    """Refuses the requests of past controllers; each partition of the others has its own result."""

    def __init__(
        self,
        broker_id: BrokerId,
        logs: Logs,
        replicas: Replicas,
        metadata: MetadataCache,
        configs: Configs,
        fetching: Fetching,
        role_changes: RoleChanges,
        removals: DelayedRemovals,
        environment: Environment,
        failures: FailureChannel,
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs
        self._fetching = fetching
        self._role_changes = role_changes
        self._removals = removals
        self._offload = environment.offload
        self._safeguards = environment.safeguards
        self._failures = failures
        self.controller_epoch = 0
        # Then no new leader is followed: it would add us to its ISR, and wait for us in vain.
        self.is_stopping = False
        self._one_at_a_time = asyncio.Lock()
        # Leader and partition epochs of what was led when the session ended: what is older is late.
        self._led: dict[TopicPartition, tuple[int, int]] = {}
        self._changed: list[TopicPartition] = []

    def check_controller(self, epoch: int) -> None:
        """Accept the newest controller. Raises BrokerError(stale_controller_epoch) for others."""
        if epoch < self.controller_epoch and self._safeguards.controller_epoch_fence:
            raise BrokerError(
                ErrorCode.stale_controller_epoch,
                f"controller epoch {epoch} is stale, the current one is {self.controller_epoch}",
            )
        self.controller_epoch = epoch

    # -- LeaderAndIsr --------------------------------------------------------

    async def become(self, request: LeaderAndIsrRequest, check: Check = lambda: None) -> Codes:
        """Carry out a LeaderAndIsr, each partition on its own.

        `check` raises BrokerError if the request is no longer for this broker: its session may
        end at any await.

        Raises  BrokerError(stale_controller_epoch), nothing changed; what `check` raises
        """
        await self._configs.know_topics([topic.topic_name for topic in request.topic_states])
        async with self._one_at_a_time:
            check()
            self.check_controller(request.controller_epoch)
            sources = {BrokerId(b.broker_id): (b.host_name, b.port) for b in request.live_leaders}
            codes: Codes = {}
            roles = {"leader": 0, "follower": 0}
            work = 0
            # Replicas are fetched by topic id before the metadata has the topic.
            for topic in request.topic_states:
                if topic.topic_id is not None:
                    self._metadata.know_id(topic.topic_name, topic.topic_id)
            with self._changing():
                for leadership in _leaderships(request):
                    held = self._logs.get(leadership.topic_partition)
                    role, code = self._become(leadership, sources)
                    codes[leadership.topic_partition] = code
                    if code is ErrorCode.none and role:
                        roles[role] += 1
                    is_created = self._logs.get(leadership.topic_partition) is not held
                    work += CREATION if is_created else 1
                    if work >= AT_ONCE:
                        work = 0
                        await asyncio.sleep(0)
                        check()
            log.info(
                "LeaderAndIsr applied controller=%d epoch=%d partitions=%d leaders=%d followers=%d",
                request.controller_id,
                request.controller_epoch,
                len(codes),
                roles["leader"],
                roles["follower"],
            )
            return codes

    def _become(
        self, leadership: Leadership, sources: Mapping[BrokerId, tuple[str, int]]
    ) -> tuple[str, ErrorCode]:
        """The new role, empty if it is the same as before, and the error code."""
        partition = leadership.topic_partition
        try:
            # It becomes the name of a directory, and anybody may have sent it.
            check_topic_name(partition.topic)
            if partition.partition < 0 or self._broker_id not in leadership.replicas:
                return "", ErrorCode.unknown_topic_or_partition
            partition_log = self._log(leadership)
            known = self._replicas.get(partition)
            if known is not None and leadership.leader_epoch < known.leadership.leader_epoch:
                return "", ErrorCode.stale_controller_epoch
            if not self._is_news(leadership):
                return "", ErrorCode.stale_controller_epoch
            if leadership.leader == self._broker_id:
                return self._lead(known, leadership, partition_log), ErrorCode.none
            return self._follow(known, leadership, partition_log, sources), ErrorCode.none
        except BrokerError as e:
            log.warning("partition refused partition=%s why=%s", partition, e)
            return "", e.code
        except DiskFault as fault:
            self._failures.disk_failed(fault)
            return "", ErrorCode.kafka_storage_error

    def _is_news(self, leadership: Leadership) -> bool:
        """True if it is not older than this broker's leadership before its session ended."""
        partition = leadership.topic_partition
        epochs = (leadership.leader_epoch, leadership.partition_epoch)
        if not leadership.is_new and epochs < self._led.get(partition, epochs):
            return False
        self._led.pop(partition, None)
        return True

    def _lead(
        self,
        known: LeaderReplica | FollowerReplica | None,
        leadership: Leadership,
        partition_log: Log,
    ) -> str:
        partition = leadership.topic_partition
        if isinstance(known, LeaderReplica) and _same_epoch(known, leadership):
            known.on_leadership(leadership)
            self._changed.append(partition)
            return ""
        self._fetching.stop(partition)
        self._replicas.put(
            LeaderReplica(
                self._broker_id,
                leadership,
                partition_log,
                high_watermark=self._high_watermark(known, partition_log),
                now_ms=asyncio.get_running_loop().time() * 1000,
                max_lag_ms=self._configs.broker.int("replica.lag.time.max.ms"),
                is_alive=self._metadata.is_alive,
                previous=known if isinstance(known, LeaderReplica) else None,
                safeguards=self._safeguards,
            )
        )
        self._changed.append(partition)
        return "leader"

    def _follow(
        self,
        known: LeaderReplica | FollowerReplica | None,
        leadership: Leadership,
        partition_log: Log,
        sources: Mapping[BrokerId, tuple[str, int]],
    ) -> str:
        partition = leadership.topic_partition
        is_new_role = not (isinstance(known, FollowerReplica) and _same_epoch(known, leadership))
        if is_new_role:
            self._fetching.stop(partition)
            known = FollowerReplica(
                self._broker_id,
                leadership,
                partition_log,
                high_watermark=self._high_watermark(known, partition_log),
            )
            self._replicas.put(known)
            self._changed.append(partition)
        assert isinstance(known, FollowerReplica)
        known.on_leadership(leadership)
        # Also for a replica that follows already: its leader may have another address now.
        source = sources.get(leadership.leader)
        if source is not None and not self.is_stopping:
            self._fetching.follow(known, *source)
        return "follower" if is_new_role else ""

    def _log(self, leadership: Leadership) -> Log:
        """The partition's log, created if need be.

        Raises  BrokerError(kafka_storage_error, inconsistent_topic_id), DiskFault
        """
        partition, topic_id = leadership.topic_partition, leadership.topic_id
        if self._replicas.is_offline(partition):
            raise BrokerError(ErrorCode.kafka_storage_error)
        found = self._logs.get(partition)
        if found is None:
            self._check_not_hidden(leadership)
            return self._create(partition, leadership)
        if topic_id is not None and found.topic_id is None:
            self._logs.adopt_topic_id(found, topic_id)
        elif topic_id is not None and found.topic_id != topic_id:
            self._set_aside(found, leadership)
            return self._create(partition, leadership)
        found.config = self._configs.topic(partition.topic)
        return found

    def _check_not_hidden(self, leadership: Leadership) -> None:
        """The log may be in a log directory that failed: an empty one would hide its records.

        Raises  BrokerError(kafka_storage_error), the partition is offline
        """
        if self._logs.offline and not leadership.is_new:
            self._replicas.take_offline(leadership.topic_partition)
            raise BrokerError(ErrorCode.kafka_storage_error)

    def _set_aside(self, found: Log, leadership: Leadership) -> None:
        """Keep the log of a topic that has given its name to another, and serve it no more.

        It was deleted while this broker was cut off, perhaps after the partition had moved
        to other brokers. Its records may be all that is left, so a person judges.

        Raises  BrokerError(inconsistent_topic_id), if it has a role
                BrokerError(kafka_storage_error), if the log of the other topic may be hidden
                DiskFault
        """
        partition = leadership.topic_partition
        why = f"holds topic id {found.topic_id}, but the controller sent {leadership.topic_id}"
        if self._replicas.get(partition) is not None:
            raise BrokerError(
                ErrorCode.inconsistent_topic_id, f"{found.disk.log_dir}/{found.directory} {why}"
            )
        self._check_not_hidden(leadership)
        self._led.pop(partition, None)
        if (future := self._logs.futures.delete(partition)) is not None:
            self._removals.remove_later(future)
        name = self._logs.set_aside(partition)
        log.warning("log set aside log=%s/%s why=it %s", found.disk.log_dir, name, why)

    def _create(self, partition: TopicPartition, leadership: Leadership) -> Log:
        """A new log, in another log directory if one fails."""
        config, failed = self._configs.topic(partition.topic), set[str]()
        while True:
            try:
                return self._logs.create(partition, leadership.topic_id, config, failed)
            except DiskFault as fault:
                failed.add(fault.log_dir)
                self._failures.disk_failed(fault)

    def _high_watermark(
        self, known: LeaderReplica | FollowerReplica | None, partition_log: Log
    ) -> Offset:
        """The high watermark of the replica before, or of the last checkpoint."""
        if known is not None:
            return known.high_watermark
        stored = self._logs.checkpoints.high_watermarks.get(partition_log.partition, 0)
        start, end = partition_log.log_start_offset, partition_log.log_end_offset
        return Offset(min(max(stored, start), end))

    # -- StopReplica ---------------------------------------------------------

    async def stop(self, request: StopReplicaRequest) -> Codes:
        """Carry out a StopReplica; a deleted replica does not come back after a power failure.

        Raises  BrokerError(stale_controller_epoch), nothing changed
        """
        async with self._one_at_a_time:
            self.check_controller(request.controller_epoch)
            codes: Codes = {}
            renamed: dict[Disk, list[TopicPartition]] = {}
            with self._changing():
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        partition = TopicPartition(topic.topic_name, state.partition_index)
                        held = self._logs.get(partition)
                        codes[partition] = self._stop(partition, state)
                        if held is not None and self._logs.get(partition) is None:
                            renamed.setdefault(held.disk, []).append(partition)
                        if len(codes) % AT_ONCE == 0:
                            await asyncio.sleep(0)
            for disk, partitions in renamed.items():
                if not await self._synced(disk):
                    codes |= dict.fromkeys(partitions, ErrorCode.kafka_storage_error)
            deleted = sum(
                s.delete_partition for t in request.topic_states for s in t.partition_states
            )
            log.info(
                "StopReplica applied controller=%d epoch=%d partitions=%d deleted=%d",
                request.controller_id,
                request.controller_epoch,
                len(codes),
                deleted,
            )
            return codes

    def _stop(self, partition: TopicPartition, state: StopReplicaPartitionState) -> ErrorCode:
        known = self._replicas.get(partition)
        if (
            known is not None
            and state.leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH)
            and state.leader_epoch < known.leadership.leader_epoch
        ):
            return ErrorCode.fenced_leader_epoch
        if self._replicas.is_offline(partition):
            return ErrorCode.kafka_storage_error
        self._fetching.stop(partition)
        if known is not None:
            self._logs.checkpoints.high_watermarks[partition] = known.high_watermark
        self._replicas.remove(partition)
        self._led.pop(partition, None)
        self._changed.append(partition)
        if not state.delete_partition:
            return ErrorCode.none
        if self._logs.get(partition) is None:
            # It may be in a log directory that failed, and would be back with it.
            return ErrorCode.kafka_storage_error if self._logs.offline else ErrorCode.none
        return self._delete(partition)

    async def _synced(self, disk: Disk) -> bool:
        try:
            await self._offload(disk.sync)
        except DiskFault as fault:
            self._failures.disk_failed(fault)
            return False
        return True

    def _delete(self, partition: TopicPartition) -> ErrorCode:
        try:
            if (future := self._logs.futures.delete(partition)) is not None:
                self._removals.remove_later(future)
            self._removals.remove_later(self._logs.delete(partition))
        except DiskFault as fault:
            self._failures.disk_failed(fault)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Report all roles that change meanwhile together, at the end: one request of a follower
        may wait for thousands of partitions, and checks all of them when one has changed."""
        try:
            yield
        finally:
            changed, self._changed = self._changed, []
            self._role_changes.on_changed(changed)

    # -- what else happens to replicas ---------------------------------------

    def stop_leading(self) -> int:
        """Lead nothing until the next LeaderAndIsr; returns how many partitions it led."""
        leaders = list(self._replicas)
        for leader in leaders:
            partition = leader.topic_partition
            self._logs.checkpoints.high_watermarks[partition] = leader.high_watermark
            self._led[partition] = (leader.epoch, leader.partition_epoch)
            self._replicas.remove(partition)
        self._role_changes.on_changed([leader.topic_partition for leader in leaders])
        return len(leaders)

    def remove_strays(self) -> None:
        """Delete the logs of partitions that moved to other brokers while this one was down.

        Only if the cluster knows the topic by its id: any other log is for a person to judge.
        """
        for each in list(self._logs):
            topic, index = self._metadata.topic(each.partition.topic), each.partition.partition
            image = topic.partitions.get(index) if topic is not None else None
            if topic is None or image is None or each.topic_id is None:
                continue
            if self._replicas.get(each.partition) is not None:
                continue  # it has got a role since
            if topic.topic_id == each.topic_id and self._broker_id not in image.replicas:
                log.warning("log removed, its partition is on other brokers log=%s", each.partition)
                self._delete(each.partition)

    def config_changed(self, topic: str, partitions: Iterable[int]) -> None:
        """Apply a topic's properties to its logs."""
        config = self._configs.topic(topic)
        for index in partitions:
            if (partition_log := self._logs.get(TopicPartition(topic, index))) is not None:
                partition_log.config = config


def _same_epoch(known: LeaderReplica | FollowerReplica, leadership: Leadership) -> bool:
    return known.leadership.leader_epoch == leadership.leader_epoch


def _leaderships(request: LeaderAndIsrRequest) -> Iterable[Leadership]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield Leadership(
                TopicPartition(topic.topic_name, state.partition_index),
                topic.topic_id,
                BrokerId(state.leader),
                LeaderEpoch(state.leader_epoch),
                tuple(map(BrokerId, state.isr)),
                state.partition_epoch,
                tuple(map(BrokerId, state.replicas)),
                state.controller_epoch,
                tuple(map(BrokerId, state.adding_replicas)),
                tuple(map(BrokerId, state.removing_replicas)),
                state.is_new,
            )
