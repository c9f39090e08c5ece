"""The topic config keys of Kafka 3.9, and the broker keys that are their defaults."""

from typing import Final

from barnabas.config.config_key import ConfigKey
from barnabas.config.config_table import read_keys

_MINUTE_MS: Final = 60 * 1000
_HOUR_MS: Final = 60 * _MINUTE_MS

TOPIC_KEYS: Final[dict[str, ConfigKey]] = read_keys("""
cleanup.policy list delete compact|delete medium acts
    What happens to old records: delete, compact, or both.
compression.gzip.level int -1 gzip-level medium acts
    The compression level where compression.type is gzip.
compression.lz4.level int 9 1..17 medium acts
    The compression level where compression.type is lz4.
compression.type string producer uncompressed|zstd|lz4|snappy|gzip|producer medium acts
    How batches are stored: as the producer sent them, or always with one codec.
compression.zstd.level int 3 -131072..22 medium acts
    The compression level where compression.type is zstd.
delete.retention.ms long 86400000 >=0 medium acts
    How long a delete marker is kept in a compacted log.
file.delete.delay.ms long 60000 >=0 medium acts
    How long a deleted file stays on disk.
flush.messages long 9223372036854775807 >=1 medium acts
    After how many records the log is flushed to disk.
flush.ms long 9223372036854775807 >=0 medium acts
    After how long the log is flushed to disk.
follower.replication.throttled.replicas list "" throttled-replicas medium acts
    Followers whose replication is throttled, as partition:broker pairs, or * for all.
index.interval.bytes int 4096 >=0 medium acts
    How many bytes of records there are between two entries of the offset index.
leader.replication.throttled.replicas list "" throttled-replicas medium acts
    Leaders whose replication is throttled, as partition:broker pairs, or * for all.
local.retention.bytes long -2 >=-2 medium
    How large a partition may be on local disks with tiered storage. Not supported yet.
local.retention.ms long -2 >=-2 medium
    How long records stay on local disks with tiered storage. Not supported yet.
max.compaction.lag.ms long 9223372036854775807 >=1 medium acts
    How long a record stays uncompacted at most.
max.message.bytes int 1048588 >=0 medium acts
    The largest record batch the topic accepts.
message.downconversion.enable boolean true - low acts
    Whether records are converted for clients of Kafka 0.8 to 0.10, which are refused otherwise.
message.format.version string 3.0-IV1 protocol-version medium
    The record format of old Kafka versions; ignored: the current format is always used.
message.timestamp.after.max.ms long 9223372036854775807 >=0 medium acts
    How far a producer's time may lie after the broker's.
message.timestamp.before.max.ms long 9223372036854775807 >=0 medium acts
    How far a producer's time may lie before the broker's.
message.timestamp.difference.max.ms long 9223372036854775807 >=0 medium acts
    How far a producer's time may be off; an older name that sets both of the two above.
message.timestamp.type string CreateTime CreateTime|LogAppendTime medium acts
    Whether a record's time is the producer's, or when it was appended.
min.cleanable.dirty.ratio double 0.5 0..1 medium acts
    How much of the log must be uncompacted before it is compacted again.
min.compaction.lag.ms long 0 >=0 medium acts
    How long a record stays uncompacted at least.
min.insync.replicas int 1 >=1 medium acts
    The smallest ISR with which a produce with acks=all succeeds.
preallocate boolean false - medium acts
    Whether a new segment has its full length at once, as a sparse file, until it rolls.
remote.log.copy.disable boolean false - medium
    Whether tiered storage stops copying new segments. Not supported yet.
remote.log.delete.on.disable boolean false - medium
    Whether turning tiered storage off deletes the remote segments. Not supported yet.
remote.storage.enable boolean false - medium
    Whether the topic uses tiered storage. Not supported yet.
retention.bytes long -1 - medium acts
    How large a partition may become before its oldest segments are deleted; -1 is no limit.
retention.ms long 604800000 >=-1 medium acts
    How long records are kept; -1 is for ever.
segment.bytes int 1073741824 >=14 medium acts
    The size at which the log rolls a new segment.
segment.index.bytes int 10485760 >=4 medium acts
    The largest index file of a segment.
segment.jitter.ms long 0 >=0 medium acts
    How much earlier, at random, the log may roll a new segment.
segment.ms long 604800000 >=1 medium acts
    The age at which the log rolls a new segment.
unclean.leader.election.enable boolean false - medium acts
    Whether a replica outside the ISR may be elected when no other is alive, which loses records.
""")

# The broker keys of each topic key, and the factor to the topic's unit; the first key with a value
# counts. A topic key that is absent has no broker key.
SYNONYMS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.downconversion.enable": (("log.message.downconversion.enable", 1),),
    "message.format.version": (("log.message.format.version", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.difference.max.ms": (("log.message.timestamp.difference.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
