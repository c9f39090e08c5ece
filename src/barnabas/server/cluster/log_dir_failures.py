"""Log directories that failed: taken offline here, and reported to the controller."""

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.base.errors import DiskFault
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId
from barnabas.log.logs import Logs
from barnabas.replication.follower.fetcher import ReplicaFetchers
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.role_changes import RoleChanges
from barnabas.server.maintenance.background_tasks import BackgroundTasks
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import ConnectionLoss, Coordination, ZnodeError

log = logging.getLogger("barnabas.broker")

# A report that could not be written to the tree is repeated after this time.
AGAIN_MS: Final = 1_000


class LogDirFailures:
    """Receives faults from the failure channel; the broker stops with its last log directory."""

    def __init__(
        self,
        broker_id: BrokerId,
        coordination: Coordination,
        logs: Logs,
        replicas: Replicas,
        metadata: MetadataCache,
        fetchers: ReplicaFetchers,
        role_changes: RoleChanges,
        failures: FailureChannel,
    ) -> None:
        self._broker_id = broker_id
        self._coordination = coordination
        self._logs = logs
        self._replicas = replicas
        self._metadata = metadata
        self._fetchers = fetchers
        self._role_changes = role_changes
        self._failures = failures
        self._tasks = BackgroundTasks()

    def on_faults(self, faults: Sequence[DiskFault]) -> None:
        for fault in faults:
            if fault.log_dir not in self._logs.offline:
                self._take_offline(fault)

    def _take_offline(self, fault: DiskFault) -> None:
        """Answer KAFKA_STORAGE_ERROR for the partitions of one log directory from now on."""
        log.error("log directory offline log_dir=%s cause=%s", fault.log_dir, fault.cause)
        lost = self._logs.on_failed(fault)
        for partition in lost:
            self._fetchers.stop(partition)
            self._replicas.take_offline(partition)
            self._metadata.take_offline(partition, self._broker_id)
        self._role_changes.on_changed(lost)
        if self._logs.are_offline:
            # Until the sockets close, nothing is acknowledged that the next start may not find.
            log.error("all log directories have failed, the broker stops")
            self._failures.fatal(fault)
        else:
            self._tasks.spawn(self._report())

    async def _report(self) -> None:
        """Make the controller ask which replicas are offline."""
        while not await self._is_reported():
            if await self._tasks.stops_within(AGAIN_MS):
                return

    async def _is_reported(self) -> bool:
        try:
            await self._coordination.create(
                paths.LOG_DIR_EVENT, layout.encode_log_dir_event(self._broker_id), sequential=True
            )
        except (ZnodeError, DiskFault) as e:
            log.warning("cannot report the failed log directory to the controller: %s", e)
            # In a new session the controller asks for all replicas anyway.
            return not isinstance(e, ConnectionLoss)
        return True

    async def stop(self) -> None:
        await self._tasks.stop()
