"""One log directory: its lock, its owner, its clean-shutdown marker and its checkpoints."""

import json
from collections.abc import Container, Mapping
from threading import Lock
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.disk.disk import Closeable, Disk
from barnabas.log.checkpoints import (
    CorruptCheckpoint,
    decode_offset_checkpoint,
    encode_offset_checkpoint,
)

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
FIRST_DIRTY_OFFSET: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
META_VERSION: Final = 0  # of ZooKeeper mode; 1 is KRaft's
_CHECKPOINTS: Final = (RECOVERY_POINT, LOG_START_OFFSET, HIGH_WATERMARK, FIRST_DIRTY_OFFSET)

Offsets = Mapping[TopicPartition, int]


class CheckpointWrite(NamedTuple):
    """Work for a thread: write a checkpoint, unless a later one is written by then."""

    checkpoint: "OffsetCheckpoint"
    number: int
    offsets: Offsets

    def run(self) -> None:
        self.checkpoint.write(self.number, self.offsets)


class OffsetCheckpoint:
    """One checkpoint file of a log directory: the loop prepares its contents, any thread writes."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._prepared = self._written = 0
        # Two background tasks may write at the same time, and both use the same temporary file.
        self._lock = Lock()
        # The contents on disk, as last read or written here, and the contents to write next.
        self.offsets: Offsets = {}
        self.latest: Offsets = {}

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets; none if the file is absent or damaged, so recovery scans more."""
        try:
            offsets = decode_offset_checkpoint(self._disk.load(self._name) or b"")
        except CorruptCheckpoint:
            offsets = {}
        self.offsets = self.latest = offsets
        return offsets

    def prepare(self, offsets: Offsets) -> CheckpointWrite:
        self._prepared += 1
        self.latest = offsets
        return CheckpointWrite(self, self._prepared, offsets)

    def write(self, number: int, offsets: Offsets) -> None:
        with self._lock:
            if number > self._written:
                if offsets != self.offsets or not self._written:
                    self._disk.replace(self._name, encode_offset_checkpoint(offsets))
                self.offsets, self._written = offsets, number


class LogDir:
    """A log directory that this process locks from `acquire` to `release`."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.was_clean = False
        self._checkpoints = {name: OffsetCheckpoint(disk, name) for name in _CHECKPOINTS}
        self._lock: Closeable | None = None

    def acquire(self, broker_id: BrokerId, cluster_id: str) -> None:
        """Lock the log directory for this broker, and check whether the last shutdown was clean.

        It removes the clean-shutdown marker, so from here on a crash counts as one.

        Raises  ConfigError, nothing changed, if another process holds it or another broker owns it
                DiskFault
        """
        self.disk.make_dir("")
        lock = self.disk.lock(".lock")
        if lock is None:
            raise ConfigError(
                f"log.dirs: {self.disk.log_dir} is in use by another broker; "
                "stop that broker or choose another log directory"
            )
        try:
            self._check_owner(broker_id, cluster_id)
        except ConfigError:
            lock.close()
            raise
        self._lock = lock
        self.was_clean = self.disk.status(CLEAN_SHUTDOWN) is not None
        self.disk.remove(CLEAN_SHUTDOWN)
        self.disk.sync()  # a power failure must not restore it beside torn batches

    def release(self) -> None:
        """Unlock the log directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def mark_clean(self, broker_epoch: int = -1) -> None:
        """Write the clean-shutdown marker: all logs are closed, the next start scans none."""
        marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self.disk.replace(CLEAN_SHUTDOWN, marker.encode())

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        return self._checkpoints[name].read()

    def write_offsets(self, name: str, offsets: Offsets) -> CheckpointWrite:
        return self._checkpoints[name].prepare(offsets)

    def is_known(self, name: str, partition: TopicPartition) -> bool:
        """True if that checkpoint, as it is on disk, has an entry for the partition."""
        return partition in self._checkpoints[name].offsets

    def forget_deleted(self, partition: TopicPartition, left: Container[TopicPartition]) -> None:
        """Remove the checkpoint entries of a deleted `partition` before it is created again.

        After a crash recovery would apply them to the new log, whose records could lie before the
        old log's start. Entries of partitions that are not `left` go, too. Blocks if it writes.
        """
        for checkpoint in self._checkpoints.values():
            # A write that was prepared earlier and is not done yet becomes void by this one.
            known = checkpoint.latest
            if partition in known or partition in checkpoint.offsets:
                checkpoint.prepare({each: known[each] for each in known if each in left}).run()

    def stored(self, name: str) -> str | None:
        """Return a property of `meta.properties`: `cluster.id` or `broker.id`."""
        return self._meta().get(name)

    def _meta(self) -> dict[str, str]:
        text = (self.disk.load(META_PROPERTIES) or b"").decode()
        lines = (line.strip() for line in text.splitlines())
        pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
        return {key.strip(): value.strip() for key, _, value in pairs}

    def _check_owner(self, broker_id: BrokerId, cluster_id: str) -> None:
        meta = self._meta()
        if not meta:
            self._write_meta(broker_id, cluster_id)
            return
        path = f"{self.disk.log_dir}/{META_PROPERTIES}"
        if meta.get("version") != str(META_VERSION):
            raise ConfigError(
                f"{path} has version={meta.get('version')}; this release knows {META_VERSION}"
                " (ZooKeeper mode): use the release that wrote it, or a newer one"
            )
        if meta.get("broker.id") != str(broker_id):
            raise ConfigError(
                f"broker.id={broker_id}, but {path} says broker.id={meta.get('broker.id')}; "
                "set broker.id to that, or log.dirs to this broker's own directory"
            )
        if meta.get("cluster.id", cluster_id) != cluster_id:
            raise ConfigError(
                f"this cluster's id is {cluster_id}, but {path} says {meta['cluster.id']}; "
                "the directory holds another cluster's data: correct zookeeper.connect or log.dirs"
            )

    def _write_meta(self, broker_id: BrokerId, cluster_id: str) -> None:
        text = f"#\nbroker.id={broker_id}\ncluster.id={cluster_id}\nversion={META_VERSION}\n"
        self.disk.replace(META_PROPERTIES, text.encode())
