"""The truncation check: a log that was truncated and has grown again is detected."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.client import ClusterClients
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import ArchivedPartition, ArchivedTopic, Manifest
from barnabas.spark.archive.archive_run import Archiver, ArchiveSpec
from barnabas.spark.archive.archive_source import snapshot_topics
from barnabas.spark.mirror.mirror_copy import Mirror, MirrorSpec
from barnabas.spark.mirror.mirror_state import MirrorState
from tests.spark.conftest import create_topic, produce
from tests.support.broker import BrokerProcess

BATCHES = 6
NO_SPARK: Any = None


def lose_batches(broker: BrokerProcess, topic: str, number: int) -> None:
    """Truncate the log by its last batches, as a crash before fsync does."""
    broker.kill()
    (segment,) = (broker.data / f"{topic}-0").glob("*.log")
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.truncate(size - size // BATCHES * number)
    broker.start()


def test_archive_and_mirror_detect_a_truncated_log(
    fresh_broker: Callable[..., BrokerProcess], topic: str, tmp_path: Path
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, f"copy-{topic}")
    for name in (topic, f"copy-{topic}"):
        for _ in range(BATCHES):
            produce(broker.bootstrap, name, [{"value": b"v"}])
    cluster = ClusterClients(broker.bootstrap, None)
    options = {"kafka.bootstrap.servers": broker.bootstrap}
    now = snapshot_topics(cluster, [topic])[topic]
    taken = ArchivedPartition(0, 6, leader_epoch=now.bounds[0].leader_epoch)
    folder = ArchiveDirectory(str(tmp_path / "archive"))
    folder.commit(Manifest(1, {topic: ArchivedTopic(now.topic_id, 1, {0: taken})}))
    state = MirrorState(cluster)
    mirror = Mirror(cluster, cluster, state, MirrorSpec({topic: f"copy-{topic}"}, options, options))
    [lineage] = mirror.lineages().values()
    mirror.begin()
    [begun] = state.syncs(lineage, 0)
    assert begun.leader_epoch == 0
    state.write(lineage, {0: begun._replace(source=6, target=6)})
    archiver = Archiver(cluster, folder, ArchiveSpec([topic], options))
    assert archiver.unarchived()[1] == []

    lose_batches(broker, topic, 2)
    produce(broker.bootstrap, topic, [{"value": b"other"}] * 5)

    expected = f"{topic}-0 was {{}} up to offset 6 and was truncated to 4 since"
    with pytest.raises(CommandFailed, match=expected.format("archived")):
        archiver.unarchived()
    with pytest.raises(CommandFailed, match=expected.format("copied")):
        mirror.step(NO_SPARK)
