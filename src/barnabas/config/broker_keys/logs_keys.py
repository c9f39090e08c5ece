"""Config keys of topics and logs; most are the defaults of a topic's config."""

from typing import Final

KEYS: Final = """
log.dir string /tmp/kafka-logs - high acts
    The log directory, if log.dirs is not set.
log.dirs string null - high acts
    The log directories, separated by commas; log.dir when not set.
num.partitions int 1 >=1 medium acts
    Partitions of a topic that is created without saying how many.
default.replication.factor int 1 - medium acts
    Replicas of a topic that is created without saying how many.
auto.create.topics.enable boolean true - high acts
    Whether a metadata request for an unknown topic creates it.
barnabas.auto.create.topics.max.per.request int 1000 >=0 medium internal acts
    How many topics one metadata request may create; for the others the client asks again. A key
    of Barnabas, not of Kafka.
delete.topic.enable boolean true - high acts
    Whether topics may be deleted.
message.max.bytes int 1048588 >=0 high cluster-wide acts
    The largest record batch a topic accepts.
barnabas.message.max.decompressed.bytes int 32000000 >=1048576 low internal acts
    The most bytes that the records of a compressed batch may have, if that is more than the
    largest batch that the topic accepts; MESSAGE_TOO_LARGE beyond. With its default settings
    librdkafka may fail to read more than 33 MB of zstd. A key of Barnabas, not of Kafka.
compression.type string producer uncompressed|zstd|lz4|snappy|gzip|producer high cluster-wide acts
    How batches are stored: as the producer sent them, or always with one codec.
compression.gzip.level int -1 gzip-level medium cluster-wide acts
    The compression level where compression.type is gzip.
compression.lz4.level int 9 1..17 medium cluster-wide acts
    The compression level where compression.type is lz4.
compression.zstd.level int 3 -131072..22 medium cluster-wide acts
    The compression level where compression.type is zstd.
min.insync.replicas int 1 >=1 high cluster-wide acts
    The smallest ISR with which a produce with acks=all succeeds.
log.segment.bytes int 1073741824 >=14 high cluster-wide acts
    The size at which a log rolls a new segment.
log.roll.ms long null - high cluster-wide acts
    The age at which a log rolls a new segment; log.roll.hours when not set.
log.roll.hours int 168 >=1 high acts
    The age in hours at which a log rolls a new segment.
log.roll.jitter.ms long null - high cluster-wide acts
    How much earlier, at random, a log may roll a new segment; log.roll.jitter.hours when not set.
log.roll.jitter.hours int 0 >=0 high acts
    How many hours earlier, at random, a log may roll a new segment.
log.retention.ms long null - high cluster-wide acts
    How long records are kept; -1 is for ever; log.retention.minutes when not set.
log.retention.minutes int null - high acts
    How many minutes records are kept; log.retention.hours when not set.
log.retention.hours int 168 - high acts
    How many hours records are kept.
log.retention.bytes long -1 - high cluster-wide acts
    How large a partition may become before its oldest segments are deleted; -1 is no limit.
log.retention.check.interval.ms long 300000 >=1 medium acts
    How often logs are checked for segments to delete.
log.initial.task.delay.ms long 30000 >=0 low internal
    How long after start the background work on logs begins.
log.cleanup.policy list delete compact|delete medium cluster-wide acts
    What happens to old records: delete, compact, or both.
log.index.size.max.bytes int 10485760 >=4 medium cluster-wide acts
    The largest index file of a segment.
log.index.interval.bytes int 4096 >=0 medium cluster-wide acts
    How many bytes of records there are between two entries of the offset index.
log.flush.interval.messages long 9223372036854775807 >=1 high cluster-wide acts
    After how many records a log is flushed to disk.
log.flush.interval.ms long null - high cluster-wide acts
    After how long a log is flushed to disk; log.flush.scheduler.interval.ms when not set.
log.flush.scheduler.interval.ms long 9223372036854775807 - high acts
    How often logs are checked for records to flush.
log.flush.offset.checkpoint.interval.ms int 60000 >=0 high acts
    How often the recovery points of the logs are checkpointed.
log.flush.start.offset.checkpoint.interval.ms int 60000 >=0 high acts
    How often the start offsets of the logs are checkpointed.
log.segment.delete.delay.ms long 60000 >=0 high cluster-wide acts
    How long a deleted file stays on disk.
log.preallocate boolean false - medium cluster-wide acts
    Whether a new segment has its full length at once, as a sparse file, until it rolls.
num.recovery.threads.per.data.dir int 1 >=1 high cluster-wide
    Kafka's number of threads that recover logs at start; ignored.
log.message.format.version string 3.0-IV1 protocol-version medium
    The record format of old Kafka versions; ignored: the current format is always used.
log.message.timestamp.type string CreateTime CreateTime|LogAppendTime medium cluster-wide acts
    Whether a record's time is the producer's, or when it was appended.
log.message.timestamp.difference.max.ms long 9223372036854775807 >=0 medium cluster-wide acts
    How far a producer's time may be off; an older name that sets both of the next two.
log.message.timestamp.before.max.ms long 9223372036854775807 >=0 medium cluster-wide acts
    How far a producer's time may lie before the broker's.
log.message.timestamp.after.max.ms long 9223372036854775807 >=0 medium cluster-wide acts
    How far a producer's time may lie after the broker's.
log.message.downconversion.enable boolean true - low cluster-wide acts
    Whether records are converted for clients of Kafka 0.8 to 0.10, which are refused otherwise.
log.dir.failure.timeout.ms long 30000 >=1 low
    How long a broker with a failed log directory waits for the controller to know; KRaft only.
log.local.retention.ms long -2 >=-2 medium cluster-wide
    How long records stay on local disks with tiered storage. Not supported yet.
log.local.retention.bytes long -2 >=-2 medium cluster-wide
    How large a partition may be on local disks with tiered storage. Not supported yet.
remote.log.storage.system.enable boolean false - medium
    Whether tiered storage is on. Not supported yet.
log.cleaner.enable boolean true - medium acts
    Whether logs with cleanup policy compact are compacted.
log.cleaner.threads int 1 >=0 medium cluster-wide acts
    How many logs are compacted at a time.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 - medium cluster-wide acts
    How fast compaction may read and write.
log.cleaner.dedupe.buffer.size long 134217728 - medium cluster-wide acts
    Memory for the keys that compaction looks for, shared by its threads.
log.cleaner.io.buffer.size int 524288 >=0 medium cluster-wide acts
    Memory for the records that compaction reads at a time.
log.cleaner.io.buffer.load.factor double 0.9 - medium cluster-wide acts
    How much of the memory for keys may be used in one pass.
log.cleaner.backoff.ms long 15000 >=0 medium cluster-wide acts
    How long compaction waits when there is nothing to compact.
log.cleaner.min.cleanable.ratio double 0.5 0..1 medium cluster-wide acts
    How much of a log must be uncompacted before it is compacted again.
log.cleaner.delete.retention.ms long 86400000 >=0 medium cluster-wide acts
    How long a delete marker is kept in a compacted log.
log.cleaner.min.compaction.lag.ms long 0 >=0 medium cluster-wide acts
    How long a record stays uncompacted at least.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 >=1 medium cluster-wide acts
    How long a record stays uncompacted at most.
create.topic.policy.class.name class null - low
    A Java class that may refuse new topics; ignored.
alter.config.policy.class.name class null - low
    A Java class that may refuse new configurations; ignored.
"""
