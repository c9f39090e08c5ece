"""Config keys of replication, leader election and leader balancing."""

from typing import Final

KEYS: Final = """
controller.socket.timeout.ms int 30000 - medium acts
    How long a request from the controller to a broker may take.
replica.lag.time.max.ms long 30000 - high acts
    How long a follower may lag before it leaves the in-sync replicas.
replica.socket.timeout.ms int 30000 - high acts
    How long a follower waits for a response of its leader.
replica.socket.receive.buffer.bytes int 65536 - high
    The receive buffer of a follower's connection to its leader.
replica.fetch.max.bytes int 1048576 >=0 medium acts
    How much a follower asks for from each partition at a time.
replica.fetch.wait.max.ms int 500 - high acts
    How long a leader may delay the response to a follower that has caught up.
replica.fetch.backoff.ms int 1000 >=0 medium acts
    The longest back-off of a follower after a failed fetch; shorter while its leader may not know
    yet that it leads.
replica.fetch.min.bytes int 1 - high acts
    How much a leader should have before it responds to a follower.
replica.fetch.response.max.bytes int 10485760 >=0 medium acts
    How much a follower asks for in one fetch.
num.replica.fetchers int 1 - high cluster-wide acts
    How many connections a follower fetches over from each leader.
num.replica.alter.log.dirs.threads int null - high
    Kafka's number of threads that move replicas between log directories.
replica.high.watermark.checkpoint.interval.ms long 5000 - high acts
    How often the high watermarks are checkpointed.
replica.selector.class string null - medium acts
    Which replica a consumer is sent to: Kafka's RackAwareReplicaSelector; the leader when not set.
fetch.purgatory.purge.interval.requests int 1000 - medium
    When Kafka purges completed fetches; ignored: they leave the purgatory at once.
producer.purgatory.purge.interval.requests int 1000 - medium
    When Kafka purges completed produce requests; ignored.
delete.records.purgatory.purge.interval.requests int 1 - medium
    When Kafka purges completed DeleteRecords requests; ignored.
auto.leader.rebalance.enable boolean true - high acts
    Whether leadership returns to the preferred leaders automatically.
leader.imbalance.per.broker.percentage int 10 - high acts
    How many percent of a broker's partitions other brokers may lead before leaders are balanced.
leader.imbalance.check.interval.seconds long 300 >=1 high acts
    How often the leader balance is checked.
unclean.leader.election.enable boolean false - high cluster-wide acts
    Whether a replica outside the ISR may be elected when no other is alive, which loses records.
unclean.leader.election.interval.ms long 300000 >=1 medium internal
    How often partitions without a leader are checked for an unclean election; KRaft only.
"""
