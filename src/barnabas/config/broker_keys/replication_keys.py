"""Keys of replication, of elections, and of the balance of leaders."""

from typing import Final

KEYS: Final = """
controller.socket.timeout.ms int 30000 - medium acts
    How long a request from the controller to a broker may take.
replica.lag.time.max.ms long 30000 - high acts
    How long a follower may lag before it leaves the in-sync replicas.
replica.socket.timeout.ms int 30000 - high acts
    How long a follower waits for an answer of its leader.
replica.socket.receive.buffer.bytes int 65536 - high
    The receive buffer of a follower's connection to its leader.
replica.fetch.max.bytes int 1048576 >=0 medium acts
    How much a follower asks for from each partition at a time.
replica.fetch.wait.max.ms int 500 - high acts
    How long a leader may hold back an answer to a follower that has everything.
replica.fetch.backoff.ms int 1000 >=0 medium acts
    How long a follower waits after a failed fetch, at most: a leader that may not have heard yet
    that it leads is asked again sooner.
replica.fetch.min.bytes int 1 - high acts
    How much a leader should have before it answers a follower.
replica.fetch.response.max.bytes int 10485760 >=0 medium acts
    How much a follower asks for in one fetch.
num.replica.fetchers int 1 - high cluster-wide acts
    How many connections a follower fetches over from each leader.
num.replica.alter.log.dirs.threads int null - high
    Kafka's number of threads that move replicas between folders.
replica.high.watermark.checkpoint.interval.ms long 5000 - high acts
    How often the high watermarks are written to disk.
replica.selector.class string null - medium acts
    Which replica a consumer is sent to: Kafka's RackAwareReplicaSelector; the leader when not set.
fetch.purgatory.purge.interval.requests int 1000 - medium
    When Kafka tidies up among waiting fetches; accepted, not used: a finished one leaves at once.
producer.purgatory.purge.interval.requests int 1000 - medium
    When Kafka tidies up among waiting produce requests; accepted, not used.
delete.records.purgatory.purge.interval.requests int 1 - medium
    When Kafka tidies up among waiting DeleteRecords requests; accepted, not used.
auto.leader.rebalance.enable boolean true - high acts
    Whether leadership returns to the preferred replicas by itself.
leader.imbalance.per.broker.percentage int 10 - high acts
    How many percent of a broker's partitions may be led elsewhere before leaders are balanced.
leader.imbalance.check.interval.seconds long 300 >=1 high acts
    How often the balance of leaders is looked at.
unclean.leader.election.enable boolean false - high cluster-wide acts
    Whether a replica that is not in sync may lead when no other is left, which loses records.
unclean.leader.election.interval.ms long 300000 >=1 medium internal
    How often partitions without a leader are looked at for an unclean election; KRaft only.
"""
