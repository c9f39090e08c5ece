"""DeleteTopics: by name and id; what waits is answered, data goes, and nothing comes back."""

import shutil
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import EARLIEST, LATEST, Client, parts
from tests.server.admin.faulty_disk import FaultyDisk
from tests.server.admin.running import broker, until

VERSIONS = range(1, 7)


def delete(client: Client, version: int, *names: str) -> Any:
    topics = tuple(parts(name=name, topic_id=None) for name in names)
    return client.call(ApiKey.DELETE_TOPICS, version, topics=topics, topic_names=names).responses


def by_id(client: Client, topic_id: uuid.UUID, name: str | None = None) -> Any:
    asked = parts(name=name, topic_id=topic_id)
    return client.call(ApiKey.DELETE_TOPICS, topics=(asked,)).responses[0]


def folders(path: Path, topic: str) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.name.startswith(topic))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_goes_by_its_name(client: Client, version: int) -> None:
    name = f"gone-{version}"
    client.create(name, 2)
    (result,) = delete(client, version, name)
    assert (result.name, result.error_code) == (name, ErrorCode.none)
    found = client.call(
        ApiKey.METADATA,
        topics=(parts(name=name, topic_id=None),),
        allow_auto_topic_creation=False,
    )
    assert found.topics[0].error_code == ErrorCode.unknown_topic_or_partition
    assert client.produce(name).error_code == ErrorCode.unknown_topic_or_partition
    latest = client.list_offsets(name, LATEST)
    assert latest.error_code == ErrorCode.unknown_topic_or_partition


def test_a_topic_goes_by_its_id(client: Client) -> None:
    topic_id = client.create("by-id")
    result = by_id(client, topic_id)
    assert (result.name, result.topic_id, result.error_code) == ("by-id", topic_id, 0)
    again = by_id(client, topic_id)
    assert (again.name, again.error_code) == (None, ErrorCode.unknown_topic_id)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_not_there_spoils_nothing(client: Client, version: int) -> None:
    client.create("beside")
    results = delete(client, version, "nowhere", "beside")
    assert {r.name: r.error_code for r in results} == {
        "nowhere": ErrorCode.unknown_topic_or_partition,
        "beside": ErrorCode.none,
    }


def test_name_and_id_together_are_refused(client: Client) -> None:
    topic_id = client.create("both")
    assert by_id(client, topic_id, "both").error_code == ErrorCode.invalid_request
    assert client.offset("both", LATEST) == 0


def test_each_version_gets_an_error_while_deletion_is_disabled(tmp_path: Path) -> None:
    with broker(tmp_path, delete_topic_enable="false") as running, running.client() as client:
        client.create("kept")
        for version in VERSIONS:
            old = version < 3
            expected = ErrorCode.invalid_request if old else ErrorCode.topic_deletion_disabled
            assert delete(client, version, "kept")[0].error_code == expected
        assert client.offset("kept", LATEST) == 0


def test_a_fetch_that_waits_is_answered(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as waiting, running.client() as client:
        client.create("t")
        asked = parts(partition=0, fetch_offset=0, partition_max_bytes=1000)
        waiting.send(
            ApiKey.FETCH,
            12,
            max_wait=timedelta(minutes=5),
            min_bytes=1,
            session_epoch=-1,
            topics=(parts(topic="t", partitions=(asked,)),),
        )
        client.offset("t", LATEST)
        assert client.delete("t").error_code == ErrorCode.none
        answer = waiting.receive(ApiKey.FETCH, 12).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.unknown_topic_or_partition


def test_the_data_is_renamed_at_once_and_removed_after_the_delay(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("later", 1, file_delete_delay_ms="100000")
        client.create("soon", 1, file_delete_delay_ms="0")
        client.delete("later")
        client.delete("soon")
        (left,) = folders(tmp_path, "later")
        assert left.endswith("-delete")
        until(lambda: not folders(tmp_path, "soon"), "the folder to go")
    with broker(tmp_path):
        until(lambda: not folders(tmp_path, "later"), "what the last run left to go")


def test_a_topic_can_be_created_again_under_its_name(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        first = client.create("t", 2, retention_ms="5000")
        client.produce("t", [b"old"] * 3)
        client.delete("t")
        second = client.create("t")
        assert first != second
        assert (client.offset("t", EARLIEST), client.offset("t", LATEST)) == (0, 0)
        assert client.produce("t", [b"new"]).base_offset == 0
    with broker(tmp_path) as running, running.client() as client:
        (topic,) = client.call(ApiKey.METADATA, topics=None).topics
        assert (topic.topic_id, len(topic.partitions)) == (second, 1)
        assert client.offset("t", LATEST) == 1


def crash_amid_deletion(tmp_path: Path) -> tuple[Path, uuid.UUID]:
    """The state after a crash when a topic is to be deleted, and its data is still there."""
    folder, crashed = tmp_path / "data", tmp_path / "crashed"

    def crash(path: str) -> None:
        if path.startswith("t-") and not crashed.exists():
            shutil.copytree(folder, crashed, ignore=shutil.ignore_patterns("*.tmp"))

    def disk(name: str) -> FaultyDisk:
        made = FaultyDisk(name)
        made.before_rename = crash
        return made

    with broker(folder, disk=disk) as running, running.client() as client:
        topic_id = client.create("t", 2)
        client.produce("t", [b"old"] * 3)
        client.delete("t")
    return crashed, topic_id


def test_a_crash_amid_deletion_does_not_bring_the_topic_back(tmp_path: Path) -> None:
    crashed, _ = crash_amid_deletion(tmp_path)
    assert folders(crashed, "t-") == ["t-0", "t-1"]
    with broker(crashed) as running, running.client() as client:
        assert client.call(ApiKey.METADATA, topics=None).topics == ()
        until(
            lambda: all(name.endswith("-delete") for name in folders(crashed, "t-")),
            "the deletion to go on",
        )


def test_after_a_crash_during_deletion_the_topic_can_be_created_again(tmp_path: Path) -> None:
    crashed, first = crash_amid_deletion(tmp_path)
    with broker(crashed) as running, running.client() as client:
        until(lambda: client.can_create("t"), "the deletion to be finished")
        assert client.create("t", 1) != first
        assert (client.offset("t", EARLIEST), client.offset("t", LATEST)) == (0, 0)
    with broker(crashed) as running, running.client() as client:
        assert client.offset("t", LATEST) == 0


def test_the_log_of_an_unknown_topic_is_left_alone(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t")
        client.produce("t")
    for journal in tmp_path.glob("znodes*"):
        journal.unlink()
    (tmp_path / "meta.properties").unlink()
    with broker(tmp_path) as running, running.client() as client:
        assert client.call(ApiKey.METADATA, topics=None).topics == ()
        # Nor does anyone who asks for the name make the records go.
        named = (parts(name="t", topic_id=None),)
        (told,) = client.call(ApiKey.METADATA, topics=named, allow_auto_topic_creation=True).topics
        assert told.error_code == ErrorCode.kafka_storage_error
        wanted = parts(name="t", num_partitions=1, replication_factor=1)
        (refused,) = client.call(ApiKey.CREATE_TOPICS, topics=(wanted,)).topics
        assert refused.error_code == ErrorCode.kafka_storage_error
        assert str(tmp_path / "t-0") in refused.error_message
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size > 0


def test_growing_altering_and_deleting_at_once_leaves_a_name_that_can_be_used(
    tmp_path: Path,
) -> None:
    with broker(tmp_path) as running:
        clients = [running.client() for _ in range(3)]
        grower, alterer, deleter = clients
        for _ in range(20):
            deleter.create("t")
            grower.send(
                ApiKey.CREATE_PARTITIONS,
                3,
                topics=(parts(name="t", count=4, assignments=None),),
            )
            config = parts(name="retention.ms", config_operation=0, value="5")
            resource = parts(resource_type=2, resource_name="t", configs=(config,))
            alterer.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=(resource,))
            assert deleter.delete("t").error_code == ErrorCode.none
            for sent, key, version in (
                (grower, ApiKey.CREATE_PARTITIONS, 3),
                (alterer, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1),
            ):
                sent.receive(key, version)
        for client in clients:
            client.close()
