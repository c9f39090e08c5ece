"""What one topic is configured to do, resolved once so that hot code reads plain attributes."""

from dataclasses import dataclass
from typing import Final

_MAX_LONG: Final = 2**63 - 1
_HOUR_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Every topic property of Kafka 3.9, with Kafka's default; where Kafka says so, -1 is no limit.

    Fields are the property names with underscores for dots.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * _HOUR_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _MAX_LONG
    flush_ms: int = _MAX_LONG
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = _MAX_LONG
    max_message_bytes: int = 1024 * 1024 + 12
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = _MAX_LONG
    message_timestamp_before_max_ms: int = _MAX_LONG
    message_timestamp_difference_max_ms: int = _MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * _HOUR_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * 24 * _HOUR_MS
    unclean_leader_election_enable: bool = False

    @property
    def compacts(self) -> bool:
        """Whether old values of a key may be removed."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments may be removed by age or size."""
        return "delete" in self.cleanup_policy
