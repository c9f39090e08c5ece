"""Clients of old Kafka versions, as far as they need no old record format; and an admin client.

kafka-python sends the versions of the Kafka release that it is given.
"""

import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.admin.running import Running, broker, until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own, on import
    import kafka.admin
    import kafka.errors

# It declares no types.
python: Any = kafka


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with broker(tmp_path_factory.mktemp("old")) as started:
        yield started


@pytest.mark.parametrize("release", [(0, 8, 1), (0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 11)])
def test_offsets_are_listed_and_committed(running: Running, release: tuple[int, ...]) -> None:
    partition = python.TopicPartition(f"t-{uuid.uuid4().hex[:8]}", 0)
    with running.client() as client:
        client.create(partition.topic)
        client.produce(partition.topic, [b"a", b"b"])
    consumer = python.KafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{running.port}",
        api_version=release,
        group_id=f"group-{partition.topic}",
        enable_auto_commit=False,
    )
    consumer.assign([partition])
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 2}
    assert consumer.committed(partition) is None
    consumer.commit({partition: python.OffsetAndMetadata(1, "", -1)})
    assert consumer.committed(partition) == 1
    consumer.close(autocommit=False)


@pytest.mark.parametrize("release", [(0, 10, 1), (0, 11)])
def test_topics_are_created_and_deleted(running: Running, release: tuple[int, ...]) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = python.admin.KafkaAdminClient(
        bootstrap_servers=f"127.0.0.1:{running.port}", api_version=release
    )
    (created,) = admin.create_topics([python.admin.NewTopic(name, 1, 1)])["topics"]
    assert (created["name"], created["error_code"]) == (name, 0)
    with running.client() as client:
        assert client.offset(name, -1) == 0
    (deleted,) = admin.delete_topics([name])["topics"]
    assert (deleted["name"], deleted["error_code"]) == (name, 0)
    admin.close()


def test_an_admin_moves_a_replica_between_log_directories(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with broker(one, two) as started, started.client() as client:
        client.create("t")
        client.produce("t", [b"a", b"b"])
        target = two if (one / "t-0").exists() else one
        admin = python.admin.KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{started.port}")
        (code,) = admin.alter_replica_log_dirs({("t", 0, 0): str(target)}).values()
        assert code is python.errors.NoError
        until(lambda: (target / "t-0").exists(), "the replica in the other log directory")
        assert client.offset("t", -1) == 2
        admin.close()
