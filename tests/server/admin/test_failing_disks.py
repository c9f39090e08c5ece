"""A disk that dies takes its own partitions with it, and no others; the last one the broker."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.batch import headers
from barnabas.wire.records.records import Record, read_records
from tests.server.admin.client import LATEST, Client, parts
from tests.server.admin.faulty_disk import FaultyDisk
from tests.server.admin.running import broker, until

FAST = {
    "log_flush_offset_checkpoint_interval_ms": "20",
    "log_flush_scheduler_interval_ms": "20",
}
STORAGE = ErrorCode.kafka_storage_error


class Disks(dict[str, FaultyDisk]):
    """The disks of a broker, by the last part of their path."""

    def __call__(self, folder: str) -> FaultyDisk:
        disk = self[Path(folder).name] = FaultyDisk(folder)
        return disk


def homes(client: Client) -> dict[int, str]:
    """In which folder each partition of t lies."""
    return {
        partition.partition_index: Path(result.log_dir).name
        for result in client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None).results
        for topic in result.topics
        for partition in topic.partitions
    }


def metadata(client: Client) -> dict[int, Any]:
    (topic,) = client.call(ApiKey.METADATA, topics=(parts(name="t", topic_id=None),)).topics
    return {partition.partition_index: partition for partition in topic.partitions}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


def test_new_partitions_go_to_the_log_directory_with_fewer_logs(folders: tuple[Path, Path]) -> None:
    with broker(folders[0]) as running, running.client() as client:
        client.create("first", 3)
    with broker(*folders) as running, running.client() as client:
        client.create("t", 5)
        names = {folder: [p.name for p in folder.glob("*-[0-9]")] for folder in folders}
        assert {len(found) for found in names.values()} == {4}


def is_known_as_gone(told: Any) -> bool:
    gone = (-1, ErrorCode.leader_not_available, (0,))
    return (told.leader_id, told.error_code, told.offline_replicas) == gone


def test_a_dead_disk_makes_only_its_own_partitions_offline(folders: tuple[Path, Path]) -> None:
    disks = Disks()
    with broker(*folders, disk=disks, **FAST) as running, running.client() as client:
        client.create("t", 2)
        for partition in (0, 1):
            client.produce("t", [b"x"], partition)
        lost, kept = sorted(homes(client), key=lambda p: homes(client)[p] != "two")
        disks["two"].failing = True
        assert client.produce("t", [b"x"], lost).error_code == STORAGE
        assert client.produce("t", [b"x"], lost).error_code == STORAGE
        assert client.fetch("t", 0, lost).error_code == STORAGE
        assert client.list_offsets("t", LATEST, partition=lost).error_code == STORAGE

        assert client.produce("t", [b"x"], kept).base_offset == 1
        assert client.fetch("t", 0, kept).error_code == ErrorCode.none
        assert client.offset("t", LATEST, kept) == 2
        assert running.failure() is None

        until(lambda: is_known_as_gone(metadata(client)[lost]), "the leader to be known as gone")
        assert metadata(client)[kept].leader_id == 0
        dirs = client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None).results
        codes = {Path(result.log_dir).name: result.error_code for result in dirs}
        assert codes == {"one": ErrorCode.none, "two": STORAGE}

        client.create("new", 3)
        for partition in range(3):
            assert client.produce("new", [b"x"], partition).error_code == ErrorCode.none


@pytest.mark.parametrize("asked", ["list_offsets", "fetch"])
def test_reading_from_a_dead_disk_takes_it_offline(folders: tuple[Path, Path], asked: str) -> None:
    disks = Disks()
    with broker(*folders, disk=disks) as running, running.client() as client:
        client.create("t", 2)
        lost = next(p for p, home in homes(client).items() if home == "two")
        client.produce("t", [b"x"], lost)
        disks["two"].failing = True
        if asked == "fetch":
            answer = client.fetch("t", 0, lost)
        else:
            answer = client.list_offsets("t", 0, partition=lost)
        assert answer.error_code == STORAGE
        until(lambda: metadata(client)[lost].leader_id == -1, "the leader to be known as gone")


def test_housekeeping_finds_a_dead_disk_by_itself(folders: tuple[Path, Path]) -> None:
    disks = Disks()
    with broker(*folders, disk=disks, **FAST) as running, running.client() as client:
        client.create("t", 2, flush_ms="1")
        lost = next(p for p, home in homes(client).items() if home == "two")
        client.produce("t", [b"x"], lost)
        disks["two"].failing = True
        until(lambda: metadata(client)[lost].leader_id == -1, "the folder to go offline")


def test_a_fetch_that_waits_is_answered_when_its_disk_dies(folders: tuple[Path, Path]) -> None:
    disks = Disks()
    with (
        broker(*folders, disk=disks, **FAST) as running,
        running.client() as client,
        running.client() as waiting,
    ):
        client.create("t", 2)
        lost = next(p for p, home in homes(client).items() if home == "two")
        asked = parts(partition=lost, fetch_offset=0, partition_max_bytes=1000)
        waiting.send(
            ApiKey.FETCH,
            12,
            max_wait=timedelta(minutes=5),
            min_bytes=1,
            session_epoch=-1,
            topics=(parts(topic="t", partitions=(asked,)),),
        )
        client.offset("t", LATEST, lost)
        disks["two"].failing = True
        client.produce("t", [b"x"], lost)
        answer = waiting.receive(ApiKey.FETCH, 12).responses[0].partitions[0]
        assert answer.error_code == STORAGE


def test_a_topic_is_created_in_the_log_directory_that_works(folders: tuple[Path, Path]) -> None:
    disks = Disks()
    with broker(*folders, disk=disks) as running, running.client() as client:
        disks["two"].failing = True
        client.create("t", 4)
        for partition in range(4):
            assert client.produce("t", [b"x"], partition).error_code == ErrorCode.none


def test_a_topic_on_a_dead_disk_can_be_deleted_and_stays_deleted(
    folders: tuple[Path, Path],
) -> None:
    disks = Disks()
    with broker(*folders, disk=disks) as running, running.client() as client:
        client.create("t", 2)
        client.produce("t", [b"x"], 0)
        client.produce("t", [b"x"], 1)
        disks["two"].failing = True
        assert client.delete("t").error_code == ErrorCode.none
        # As Kafka's: the name is free when the last replica could be deleted.
        assert not client.can_create("t")
    with broker(*folders) as running, running.client() as client:
        assert client.call(ApiKey.METADATA, topics=None).topics == ()
        until(lambda: client.can_create("t"), "the deletion to be finished")
        client.create("t", 2)
        assert client.offset("t", LATEST, 0) == client.offset("t", LATEST, 1) == 0


def dead_two(folder: str) -> FaultyDisk:
    disk = FaultyDisk(folder)
    disk.failing = Path(folder).name == "two"
    return disk


def stopped(client: Client, topic: str) -> ErrorCode:
    """The response of a broker that is to delete a replica."""
    state = parts(partition_index=0, leader_epoch=-2, delete_partition=True)
    states = (parts(topic_name=topic, partition_states=(state,)),)
    epochs = {"controller_id": 0, "controller_epoch": 1_000, "broker_epoch": -1}
    told = client.call(ApiKey.STOP_REPLICA, topic_states=states, **epochs)
    code: ErrorCode = told.partition_errors[0].error_code
    return code


def test_a_topic_that_may_lie_on_a_dead_disk_is_not_reported_as_deleted(
    folders: tuple[Path, Path],
) -> None:
    with broker(*folders, disk=dead_two) as running, running.client() as client:
        assert stopped(client, "t") is STORAGE, "or it would be back with its disk"
    with broker(*folders) as running, running.client() as client:
        assert stopped(client, "t") is ErrorCode.none


def test_a_deletion_that_did_not_reach_the_disk_is_not_acknowledged(
    folders: tuple[Path, Path],
) -> None:
    disks = Disks()
    with broker(*folders, disk=disks) as running, running.client() as client:
        client.create("t")
        (home,) = homes(client).values()
        lost = DiskFault(disks[home].log_dir, OSError())
        with patch.object(disks[home], "sync", side_effect=lost):
            assert stopped(client, "t") is STORAGE
        assert stopped(client, "t") is STORAGE, "asked once more"


def test_partitions_of_a_disk_that_is_dead_at_the_start_are_not_created_again(
    folders: tuple[Path, Path],
) -> None:
    with broker(*folders) as running, running.client() as client:
        client.create("t", 2)
        for partition in (0, 1):
            client.produce("t", [b"x"] * 3, partition)
        lost = next(p for p, home in homes(client).items() if home == "two")

    with broker(*folders, disk=dead_two) as running, running.client() as client:
        assert client.produce("t", [b"x"], lost).error_code == STORAGE
        assert client.offset("t", LATEST, 1 - lost) == 3
        until(lambda: metadata(client)[lost].leader_id == -1, "the leader to be known as gone")
    with broker(*folders) as running, running.client() as client:
        until(lambda: metadata(client)[lost].leader_id == 0, "the leader to be elected again")
        assert client.offset("t", LATEST, lost) == 3


def test_the_broker_stops_when_no_disk_is_left(folders: tuple[Path, Path]) -> None:
    disks = Disks()
    with broker(*folders, disk=disks, **FAST) as running, running.client() as client:
        client.create("t", 2)
        for disk in disks.values():
            disk.failing = True
        for partition in (0, 1):
            assert client.produce("t", [b"x"], partition).error_code == STORAGE
        until(lambda: isinstance(running.failure(), DiskFault), "the broker to give up")


def test_nothing_is_acknowledged_once_the_last_disk_has_failed(tmp_path: Path) -> None:
    """The disk works again at once, but the broker is about to stop without flushing."""
    disks = Disks()
    with broker(tmp_path / "only", disk=disks) as running, running.client() as client:
        client.create("t", 2)
        assert client.produce("t", [b"x"], 1).error_code == 0
        disks["only"].failing = True
        assert client.produce("t", [b"x"], 0).error_code == STORAGE
        disks["only"].failing = False
        until(lambda: isinstance(running.failure(), DiskFault), "the broker to give up")
        assert client.produce("t", [b"y"], 1).error_code == STORAGE
        assert client.fetch("t", 0, 1).error_code == STORAGE


def test_changes_are_refused_when_the_disk_of_the_tree_is_dead(folders: tuple[Path, Path]) -> None:
    disks = Disks()
    with broker(*folders, disk=disks) as running, running.client() as client:
        client.create("t", 2)
        kept = next(p for p, home in homes(client).items() if home == "two")
        disks["one"].failing = True
        wanted = parts(name="new", num_partitions=1, replication_factor=1)
        assert client.call(ApiKey.CREATE_TOPICS, topics=(wanted,)).topics[0].error_code == STORAGE
        assert client.delete("t").error_code == STORAGE
        config = parts(name="retention.ms", config_operation=0, value="1")
        resource = parts(resource_type=2, resource_name="t", configs=(config,))
        (altered,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,)).responses
        assert altered.error_code == STORAGE
        grown = parts(name="t", count=3, assignments=None)
        (result,) = client.call(ApiKey.CREATE_PARTITIONS, topics=(grown,)).results
        assert result.error_code == STORAGE
        given = client.call(ApiKey.INIT_PRODUCER_ID, transactional_id=None)
        assert given.error_code == ErrorCode.coordinator_not_available
        assert client.produce("t", [b"x"], kept).error_code == ErrorCode.none
        assert [t.name for t in client.call(ApiKey.METADATA, topics=None).topics] == ["t"]
        assert len(metadata(client)) == 2


def test_a_log_directory_that_cannot_be_created_is_offline_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    with broker(tmp_path / "one", tmp_path / "file" / "two") as running, running.client() as client:
        client.create("t", 2)
        assert homes(client) == {0: "one", 1: "one"}
        assert client.produce("t", [b"x"], 1).error_code == ErrorCode.none


@pytest.fixture
def small_folder(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes, where one may be mounted."""
    folder = tmp_path / "two"
    folder.mkdir()
    if not mount(folder, "-t", "tmpfs", "-o", "size=2m", "tmpfs"):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(folder: Path, *options: str) -> bool:
    try:
        done = subprocess.run(["mount", *options, str(folder)], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


@pytest.mark.parametrize("value_size", [50_000, 100])
def test_a_full_disk_is_an_error_to_the_producer_and_loses_nothing_acknowledged(
    tmp_path: Path, small_folder: Path, value_size: int
) -> None:
    """Large batches fill it with data, small ones at last with the indexes of their data."""
    folders, value = (tmp_path / "one", small_folder), b"x" * value_size
    with broker(*folders, log_index_interval_bytes="1") as running, running.client() as client:
        client.create("t", 2)
        lost = next(p for p, home in homes(client).items() if home == "two")
        acknowledged = 0
        while (answer := client.produce("t", [value], lost)).error_code == ErrorCode.none:
            acknowledged = answer.base_offset + 1
        assert answer.error_code == STORAGE
        assert acknowledged > 10
        assert client.produce("t", [value], lost).error_code == STORAGE
        assert client.produce("t", [value], 1 - lost).error_code == ErrorCode.none
        assert running.failure() is None
    assert mount(small_folder, "-o", "remount,size=8m")
    with broker(*folders) as running, running.client() as client:
        # It had no leader any more: one is elected when the broker is back.
        until(lambda: client.list_offsets("t", LATEST, partition=lost).error_code == 0)
        # One that was refused may have been written, as far as the producer can know.
        assert acknowledged <= client.offset("t", LATEST, lost) <= acknowledged + 1
        offset = 0
        while offset < acknowledged:
            for record in read_all_records(client.fetch("t", offset, lost).records):
                assert (record.offset, record.value) == (offset, value)
                offset += 1
        assert client.produce("t", [value], lost).error_code == ErrorCode.none


def read_all_records(data: bytes) -> Iterator[Record]:
    for position, header in headers(data):
        yield from read_records(data[position : position + header.size])


def test_a_broker_whose_only_log_directory_is_unusable_exits_with_a_failure(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    file.touch()
    command = "from barnabas.cli.main import main; main()"
    options = ["--listen", "127.0.0.1:0", "--data", str(file / "below")]
    ended = subprocess.run(
        [sys.executable, "-c", command, "server", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert str(file) in ended.stderr


# A broker whose disk is dead as soon as a file of the folder's name and ".dead" is there.
MORTAL = """
import os
from barnabas.cli.main import main
from barnabas.server import compose
from tests.server.admin.faulty_disk import FaultyDisk

class MortalDisk(FaultyDisk):
    def check(self):
        self.failing = os.path.exists(self.log_dir + ".dead")
        super().check()

compose.RealDisk = MortalDisk
main()
"""


def test_the_process_of_a_broker_ends_with_a_failure_when_its_last_disk_dies(
    tmp_path: Path,
) -> None:
    folder, errors = tmp_path / "data", tmp_path / "errors"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", MORTAL, "server", "--listen=127.0.0.1:0", f"--data={folder}"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=Path(__file__).parents[3],
        ) as process,
    ):
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rpartition(":")[2])
            with Client("127.0.0.1", port) as client:
                client.create("t")
                (tmp_path / "data.dead").touch()
                assert client.produce("t").error_code == STORAGE
            assert process.wait(30) == 1
        finally:
            process.kill()
    assert "Traceback" not in errors.read_text()
