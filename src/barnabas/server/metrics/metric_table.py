"""Every metric of a broker, in a table that reads like documentation.

A metric is one line of words, with its meaning indented below it. The words: name, type, labels
(`-` for none), and Kafka's name (`-` if Kafka has no such metric). A counter's name ends in
`_total`; times are in seconds, sizes in bytes, as Prometheus expects.
"""

from typing import Final, NamedTuple

PREFIX: Final = "barnabas_"

_TABLE: Final = """
leader_count gauge - ReplicaManager.LeaderCount
    Partitions that this broker leads.
partition_count gauge - ReplicaManager.PartitionCount
    Partitions that this broker has a replica of, as leader or as follower.
under_replicated_partitions gauge - ReplicaManager.UnderReplicatedPartitions
    Partitions led here of which not all replicas are in sync. Above 0 for long: a broker is down
    or too slow.
under_min_isr_partitions gauge - ReplicaManager.UnderMinIsrPartitionCount
    Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused.
at_min_isr_partitions gauge - ReplicaManager.AtMinIsrPartitionCount
    Partitions led here with just min.insync.replicas in sync: one less, and acks=all is refused.
reassigning_partitions gauge - ReplicaManager.ReassigningPartitions
    Partitions led here whose replicas are being moved.
offline_replicas gauge - ReplicaManager.OfflineReplicaCount
    Replicas of this broker that lie in a log directory that failed.
isr_shrinks_total counter - ReplicaManager.IsrShrinksPerSec
    ISR shrinks by leaders here: lagging followers were removed.
isr_expands_total counter - ReplicaManager.IsrExpandsPerSec
    ISR expansions by leaders here: a follower that caught up was added.
isr_failed_updates_total counter - ReplicaManager.FailedIsrUpdatesPerSec
    ISR changes that could not be written, as the leader was deposed meanwhile.
replica_max_lag gauge - ReplicaFetcherManager.MaxLag
    The largest lag of a follower here behind its leader's high watermark, in records.
replica_lagging_partitions gauge - -
    Followers here that are behind their leader's high watermark.
replica_failed_partitions gauge - ReplicaFetcherManager.FailedPartitionsCount
    Followers here that stopped fetching after a failure, until their next LeaderAndIsr.
replica_fetches_total counter - -
    Fetch responses that followers here received from leaders.
replica_fetched_bytes_total counter - BrokerTopicMetrics.ReplicationBytesInPerSec
    Bytes of records that followers here copied from leaders.
replica_truncations_total counter - -
    Truncations by followers here, of records that the leader does not have.
replica_connections_lost_total counter - -
    Connections to leaders that broke.
active_controller gauge - KafkaController.ActiveControllerCount
    1 if this broker is the controller. The sum over all brokers should be 1.
controller_epoch gauge - -
    The epoch this broker was elected controller with; 0 if it is not.
offline_partitions gauge - KafkaController.OfflinePartitionsCount
    Partitions without a leader, as the controller knows; 0 on all other brokers.
preferred_replica_imbalance gauge - KafkaController.PreferredReplicaImbalanceCount
    Partitions whose leader is not the preferred replica; reported by the controller.
controller_brokers gauge - KafkaController.ActiveBrokerCount
    Brokers that the controller knows to be alive.
controller_topics gauge - KafkaController.GlobalTopicCount
    Topics that the controller knows.
controller_partitions gauge - KafkaController.GlobalPartitionCount
    Partitions that the controller knows.
controller_reassigning_partitions gauge - -
    Partitions that the controller moves to other replicas.
controller_topics_to_delete gauge - KafkaController.TopicsToDeleteCount
    Topics that the controller is to delete.
controller_queue_length gauge - ControllerEventManager.EventQueueSize
    Events that wait for the controller of this broker.
controller_queue_oldest_seconds gauge - -
    The age of the oldest of these events.
unclean_leader_elections_total counter - ControllerStats.UncleanLeaderElectionsPerSec
    Leaders elected out of sync, by this broker as controller: acknowledged records may be lost.
purgatory_size gauge kind DelayedOperationPurgatory.NumDelayedOperations
    Requests that wait: produce for the other replicas, consumer_fetch and follower_fetch for
    records, delete_records for the other replicas, create_topics for their leaders.
purgatory_watched gauge kind DelayedOperationPurgatory.PurgatorySize
    Partitions that these requests wait for: a request that waits for two counts twice.
requests_total counter api RequestMetrics.RequestsPerSec
    Requests served.
request_errors_total counter api,error RequestMetrics.ErrorsPerSec
    Errors in responses, one for each partition or topic that has it.
requests_refused_total counter - -
    Requests that are not served or could not be read: the connection was closed.
request_seconds histogram api,phase RequestMetrics.LocalTimeMs, RemoteTimeMs, ResponseSendTimeMs
    The duration of requests. local: on the loop; remote: waiting, if they had to; send: delayed
    by a client that did not read its responses.
received_bytes_total counter - -
    Bytes of requests received.
sent_bytes_total counter - -
    Bytes of responses sent.
messages_in_total counter - BrokerTopicMetrics.MessagesInPerSec
    Records that producers appended to partitions led here.
loop_held_seconds histogram - -
    Turns of the event loop that took longer than 100 ms. Nobody else is served meanwhile; a
    line in the log says what ran. It is a warning if the turn used 50 ms of CPU time or was
    blocked as long, by the disk, a page fault or another thread; else the machine was busy, and
    the line is at DEBUG.
loop_held_longest_seconds gauge - -
    The longest of these turns since the broker started.
request_memory_bytes gauge - SocketServer.MemoryPoolUsed
    Memory of requests that are received but not served yet, of queued.max.request.bytes.
request_memory_waiting gauge - -
    Connections from which the broker does not read until there is memory for their requests.
connections gauge - SocketServer.connection-count
    Connections of clients and of other brokers.
fetch_sessions gauge - FetchSessionCache.NumIncrementalFetchSessions
    Fetch sessions that are kept.
groups gauge state GroupMetadataManager.NumGroups, NumGroupsStable and so on
    Consumer groups that this broker coordinates, by their state.
groups_loading gauge - -
    Partitions of the offsets topic that are led here and not read yet: their groups must wait.
transactions_open gauge - -
    Transactions that this broker coordinates and that are not completed.
transactions_oldest_seconds gauge - -
    How long the oldest of them has lasted.
transactions_markers_waiting gauge - -
    Transactions with a decided outcome, of which partitions wait for their marker.
partitions_with_late_transactions gauge - ReplicaManager.PartitionsWithLateTransactionsCount
    Partitions led here whose oldest transaction has been open for longer than
    transaction.max.timeout.ms and five minutes: readers of committed records wait for its end.
transactions_loading gauge - -
    Partitions of the transaction topic that are led here and not read yet.
log_bytes gauge - Log.Size
    Bytes of records in all logs of this broker.
log_segments gauge - Log.NumLogSegments
    Segments of all logs of this broker.
offline_log_directories gauge - LogManager.OfflineLogDirectoryCount
    Log directories that failed.
brokers gauge - -
    Brokers in the metadata that clients receive.
topics gauge - -
    Topics in the metadata that clients receive.
"""


class Metric(NamedTuple):
    """One row of the table, by its full name."""

    name: str
    kind: str
    labels: tuple[str, ...]
    in_kafka: str
    meaning: str


def _read(table: str) -> dict[str, Metric]:
    metrics: dict[str, Metric] = {}
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            name, kind, labels, in_kafka = line.split(maxsplit=3)
            named = () if labels == "-" else tuple(labels.split(","))
            metric = Metric(PREFIX + name, kind, named, in_kafka.removeprefix("-"), "")
        else:
            metric = metric._replace(meaning=f"{metric.meaning} {line.strip()}".strip())
        metrics[metric.name] = metric
    return metrics


METRICS: Final = _read(_TABLE)
