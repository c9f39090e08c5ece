"""The target topic of a replay: made if it is missing, refused if records would not stay in it."""

from collections.abc import Mapping

from barnabas.base.clock import SystemClock
from barnabas.cli.client import ClusterClients, admin, await_all, create_topics
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.show import show_time
from barnabas.spark.archive.archive_manifest import Manifest
from barnabas.spark.archive.archive_source import snapshot_created, snapshot_topics
from barnabas.spark.replay.replay_plan import ReplaySelection


def ensure_target(
    cluster: ClusterClients, manifest: Manifest, selection: ReplaySelection, target: str
) -> str:
    """Return the id of the target topic; create it if it does not exist.

    Raises  CommandFailed if it has too few partitions, uses LogAppendTime, has a retention that
            may delete records of the selection, or is the archived topic itself
    """
    archived = manifest.topics[selection.topic]
    client, metadata = cluster.admin()
    if target not in metadata.topics:
        # With limited retention old records would be deleted at once.
        settings = {
            "message.timestamp.type": "CreateTime",
            "retention.ms": "-1",
            "retention.bytes": "-1",
        }
        topic = admin.NewTopic(
            target,
            num_partitions=archived.partition_count,
            replication_factor=-1,
            config=settings,
        )
        create_topics(client, [topic])
        now = snapshot_created(cluster, target)
    else:
        resource = admin.ConfigResource(admin.RESOURCE_TOPIC, target)
        [configs] = await_all(client.describe_configs([resource]))
        if configs["message.timestamp.type"].value == "LogAppendTime":
            raise CommandFailed(
                f"topic {target} has message.timestamp.type=LogAppendTime, so records would"
                " lose their timestamps; set it to CreateTime, or replay to another topic"
            )
        settings = {name: entry.value for name, entry in configs.items()}
        now = snapshot_topics(cluster, [target])[target]
    if now.topic_id == archived.topic_id:
        raise CommandFailed(
            f"topic {target} is the archived topic itself and has these records;"
            " name another topic with --to"
        )
    if len(now.bounds) < archived.partition_count:
        raise CommandFailed(
            f"topic {target} has {len(now.bounds)} partitions but the archive has"
            f" {archived.partition_count}; add partitions, or replay to another topic"
        )
    check_retention(target, settings, selection.oldest_ms(manifest), SystemClock().now_ms())
    return now.topic_id


def check_retention(
    topic: str, configs: Mapping[str, str], oldest_ms: int | None, now_ms: int
) -> None:
    """Raises CommandFailed if the topic deletes records that old, or those beyond some size.

    How large the records will be in its log is not known.
    """
    # A topic that is created here has the broker's policy; its retention is unlimited.
    if oldest_ms is None or "delete" not in configs.get("cleanup.policy", "delete"):
        return
    retention_bytes, retention_ms = int(configs["retention.bytes"]), int(configs["retention.ms"])
    if retention_bytes >= 0:
        raise CommandFailed(
            f"topic {topic} has retention.bytes={retention_bytes}, which may delete records before"
            f" all are replayed: run `barnabas configs alter --topic {topic} --set"
            " retention.bytes=-1`, or name a topic with --to that does not exist"
        )
    if 0 <= retention_ms < now_ms - oldest_ms:
        raise CommandFailed(
            f"topic {topic} has retention.ms={retention_ms}, which deletes records before"
            f" {show_time(now_ms - retention_ms)}, and the archive has such records: run `barnabas"
            f" configs alter --topic {topic} --set retention.ms=-1`, or name a topic with --to that"
            " does not exist, or leave old records out with --since"
        )
