"""Config keys of quotas and metrics."""

from typing import Final

KEYS: Final = """
quota.window.num int 11 >=1 low acts
    How many samples a client's quota is measured over.
quota.window.size.seconds int 1 >=1 low acts
    How long each of these samples is.
controller.quota.window.num int 11 >=1 low acts
    How many samples the quota on changes of topics is measured over.
controller.quota.window.size.seconds int 1 >=1 low acts
    How long each of these samples is.
replication.quota.window.num int 11 >=1 low
    How many samples the replication quota is measured over.
replication.quota.window.size.seconds int 1 >=1 low
    How long each of these samples is.
alter.log.dirs.replication.quota.window.num int 11 >=1 low
    How many samples the quota on moves between log directories is measured over.
alter.log.dirs.replication.quota.window.size.seconds int 1 >=1 low
    How long each of these samples is.
client.quota.callback.class class null - low
    A Java class that decides on quotas; ignored.
leader.replication.throttled.rate long 9223372036854775807 >=0 medium cluster-wide internal acts
    How many bytes per second this broker sends to throttled replicas.
follower.replication.throttled.rate long 9223372036854775807 >=0 medium cluster-wide internal acts
    How many bytes per second this broker receives for throttled replicas.
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 >=0 medium cluster-wide \
internal acts
    How many bytes per second are moved between log directories.
metrics.num.samples int 2 >=1 low
    How many samples Kafka's metrics are computed over; ignored.
metrics.sample.window.ms long 30000 >=1 low
    How long each of these samples is; ignored.
metrics.recording.level string INFO - low
    How detailed Kafka's metrics are; ignored.
metric.reporters list "" - low cluster-wide
    Java classes that report metrics; ignored.
auto.include.jmx.reporter boolean true - low
    Whether metrics appear in JMX; there is no JMX here.
kafka.metrics.reporters list "" - low
    Java classes that report the older metrics; ignored.
kafka.metrics.polling.interval.secs int 10 >=1 low
    How often these reporters poll; ignored.
barnabas.metrics.listener string null - low internal acts
    HOST:PORT at which this broker serves metrics for Prometheus, on /metrics; none when not
    set. A key of Barnabas, not of Kafka.
telemetry.max.bytes int 1048576 >=1 low
    The most bytes of metrics that a client may push.
"""
