"""Config keys of consumer groups, committed offsets and transactions."""

from typing import Final

KEYS: Final = """
group.min.session.timeout.ms int 6000 - medium acts
    The shortest session timeout that a group member may request.
group.max.session.timeout.ms int 1800000 - medium acts
    The longest session timeout that a group member may request.
group.initial.rebalance.delay.ms int 3000 - medium acts
    How long an empty group waits for more members before its first rebalance.
group.max.size int 2147483647 >=1 medium acts
    How many members a group may have.
barnabas.group.max.bytes int 134217728 >=1 low internal acts
    How many bytes the metadata of all members of a group may have; beyond it clients that join get
    GROUP_MAX_SIZE_REACHED. A key of Barnabas, not of Kafka.
barnabas.group.max.member.bytes int 4194304 >=1 low internal acts
    How many bytes the metadata of one member of a group may have, over all protocols that it
    offers. A key of Barnabas, not of Kafka.
barnabas.group.total.max.bytes long 268435456 >=1 low internal acts
    How many bytes the metadata of the members of all groups of a coordinator may have; beyond it
    clients that join get COORDINATOR_NOT_AVAILABLE, and try again. A key of Barnabas, not of Kafka.
group.coordinator.rebalance.protocols list classic consumer|classic|share|unknown medium
    The group protocols to offer; ignored: classic and consumer always are.
group.coordinator.threads int 1 >=1 medium
    Kafka's number of threads for groups; ignored.
group.coordinator.append.linger.ms int 10 >=0 medium
    How long group records wait to be appended together.
group.coordinator.new.enable boolean false - medium internal
    Whether Kafka's newer group coordinator is used; ignored.
group.consumer.session.timeout.ms int 45000 >=1 medium acts
    The session timeout of members under the consumer protocol.
group.consumer.min.session.timeout.ms int 45000 >=1 medium
    The shortest session timeout that a group may have under the consumer protocol.
group.consumer.max.session.timeout.ms int 60000 >=1 medium
    The longest session timeout that a group may have under the consumer protocol.
group.consumer.heartbeat.interval.ms int 5000 >=1 medium acts
    The heartbeat interval under the consumer protocol.
group.consumer.min.heartbeat.interval.ms int 5000 >=1 medium
    The shortest heartbeat interval under the consumer protocol.
group.consumer.max.heartbeat.interval.ms int 15000 >=1 medium
    The longest heartbeat interval under the consumer protocol.
group.consumer.max.size int 2147483647 >=1 medium acts
    How many members a group may have under the consumer protocol.
group.consumer.migration.policy string bidirectional \
bidirectional|upgrade|downgrade|disabled medium internal acts
    Whether groups with members may change between the classic and the consumer protocol.
group.consumer.assignors list \
org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.\
assignor.RangeAssignor - medium
    The assignors of the consumer protocol, the first being the default; always uniform and range.
offset.metadata.max.bytes int 4096 - high acts
    The longest text that may be committed along with an offset.
offsets.load.buffer.size int 5242880 >=1 high acts
    How much of the offsets topic is read at a time when a coordinator loads it.
offsets.retention.minutes int 10080 >=1 high acts
    How long the offsets of an empty group are kept.
offsets.retention.check.interval.ms long 600000 >=1 high acts
    How often offsets are checked for expiration.
offsets.topic.num.partitions int 50 >=1 high acts
    Partitions of the offsets topic; not to be changed once it exists.
offsets.topic.replication.factor short 3 >=1 high acts
    Replicas of the offsets topic; unless given, as many as there are brokers, up to this.
offsets.topic.segment.bytes int 104857600 >=1 high acts
    The segment size of the offsets topic.
offsets.topic.compression.codec int 0 - high acts
    How commits are compressed in the offsets topic, by the codec's number.
offsets.commit.timeout.ms int 5000 >=1 high acts
    How long a commit waits for the replicas of the offsets topic.
offsets.commit.required.acks short -1 - high
    How many replicas must have a commit before it is acknowledged; -1 is all.
transaction.state.log.num.partitions int 50 >=1 high acts
    Partitions of the transaction topic; not to be changed once it exists.
transaction.state.log.replication.factor short 3 >=1 high acts
    Replicas of the transaction topic; unless given, as many as there are brokers, up to this.
transaction.state.log.min.isr int 2 >=1 high acts
    The min.insync.replicas of the transaction topic; unless given, less than its replicas.
transaction.state.log.segment.bytes int 104857600 >=1 high acts
    The segment size of the transaction topic.
transaction.state.log.load.buffer.size int 5242880 >=1 high acts
    How much of the transaction topic is read at a time when a coordinator loads it.
transaction.max.timeout.ms int 900000 >=1 high acts
    The longest timeout that a transaction may have.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 >=1 low acts
    How often transactions are checked for timeouts.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 >=1 low acts
    How often transactional ids are checked for expiration.
transaction.partition.verification.enable boolean true - low cluster-wide acts
    Whether a partition is appended to only after it was added to the transaction.
transactional.id.expiration.ms int 604800000 >=1 high acts
    How long an unused transactional id is remembered.
producer.id.expiration.ms int 86400000 >=1 low cluster-wide acts
    How long a partition remembers a silent idempotent producer.
producer.id.expiration.check.interval.ms int 600000 >=1 low internal acts
    How often producers are checked for expiration.
"""
