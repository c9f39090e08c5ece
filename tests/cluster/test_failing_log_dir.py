"""A failed log directory on one of three brokers: other brokers lead its partitions."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.base.errors import ErrorCode
from tests.cluster.operations import create, partitions
from tests.support.clients import Message
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import ConfluentClient

pytestmark = pytest.mark.timeout(300)

PARTITIONS: Final = 8
RECORD: Final = b"x" * 100_000


@pytest.fixture
def small_folder(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes, where mounting is allowed."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_when_a_log_directory_is_full_others_lead_its_partitions(
    fresh_cluster: Callable[..., Cluster], small_folder: Path, tmp_path: Path, topic: str
) -> None:
    cluster = fresh_cluster(brokers=2)
    cluster.add(2, [f"log.dirs={tmp_path / 'large'},{small_folder}"])
    cluster.start()
    create(cluster, topic, assignment=[(2, 0, 1)] * PARTITIONS)
    cluster.wait_settled()
    lost = [index for index in range(PARTITIONS) if (small_folder / f"{topic}-{index}").exists()]
    kept = [index for index in range(PARTITIONS) if index not in lost]
    assert lost
    assert kept

    # More than the log directory can hold: the producer sees no error, since others can.
    client = ConfluentClient(cluster.bootstrap)
    sent = [Message(RECORD, partition=lost[n % len(lost)]) for n in range(80)]
    client.produce(topic, sent, idempotent=True)
    until(
        lambda: all(partitions(cluster, topic)[index].leader_id != 2 for index in lost),
        "others to lead what was in the folder",
    )
    until(
        lambda: all(2 not in partitions(cluster, topic)[index].isr_nodes for index in lost),
        "the broker to leave the ISRs",
    )
    found = partitions(cluster, topic)
    assert all(found[index].leader_id == 2 for index in kept)
    assert all(found[index].offline_replicas == (2,) for index in lost)
    per_partition = len(sent) // len(lost)
    for index in lost:
        read = client.consume(topic, per_partition, partitions=[index])
        assert [each.offset for each in read] == list(range(per_partition))
    client.produce(topic, [Message(b"y", partition=index) for index in kept])
    command = [sys.executable, "-m", "barnabas.cli.main", "doctor", "-b", cluster.bootstrap]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 1
    assert f"log directory {small_folder} of broker 2 is offline" in told.stdout
    assert create(cluster, f"{topic}-after", 3, 3) is ErrorCode.none
