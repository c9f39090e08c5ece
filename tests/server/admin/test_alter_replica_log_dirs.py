"""AlterReplicaLogDirs: replicas move between log directories while they are written and read."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import EARLIEST, LATEST, Client, parts
from tests.server.admin.faulty_disk import FaultyDisk
from tests.server.admin.running import Running, broker, until

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER = 4


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


@pytest.fixture
def running(dirs: tuple[Path, Path]) -> Iterator[Running]:
    with broker(*dirs) as started:
        yield started


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    with running.client() as connected:
        yield connected


def alter(client: Client, log_dir: Path | str, topic: str = "t", partition: int = 0) -> ErrorCode:
    wanted = parts(path=str(log_dir), topics=(parts(name=topic, partitions=(partition,)),))
    (told,) = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=(wanted,)).results
    assert told.topic_name == topic
    (result,) = told.partitions
    assert result.partition_index == partition
    code: ErrorCode = result.error_code
    return code


def described(client: Client, topic: str = "t") -> dict[str, Any]:
    """The replica and its future log by the name of their log directory."""
    asked = (parts(topic=topic, partitions=(0,)),)
    found = client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=asked).results
    return {
        Path(log_dir.log_dir).name: each
        for log_dir in found
        for told in log_dir.topics
        for each in told.partitions
    }


def here(dirs: tuple[Path, Path], topic: str = "t") -> tuple[Path, Path]:
    """The log directory that has the replica, and the other one."""
    one, two = dirs
    return (one, two) if (one / f"{topic}-0").exists() else (two, one)


def futures(log_dir: Path) -> list[str]:
    return [each.name for each in log_dir.glob("*-future")]


def is_moved(source: Path, target: Path, topic: str = "t") -> bool:
    name = f"{topic}-0"
    return (target / name).exists() and not (source / name).exists() and not futures(target)


def throttle(client: Client, rate: int) -> None:
    config = parts(name=RATE, config_operation=0, value=str(rate))
    resource = parts(resource_type=BROKER, resource_name="0", configs=(config,))
    (told,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,)).responses
    assert told.error_code == 0


def values(client: Client, topic: str = "t") -> int:
    return client.offset(topic, LATEST) - client.offset(topic, EARLIEST)


def fill(client: Client, batches: int = 20, topic: str = "t") -> None:
    for n in range(batches):
        assert client.produce(topic, [b"%d" % n + b"x" * 1000] * 10).error_code == 0


def test_a_replica_moves_with_all_its_records(client: Client, dirs: tuple[Path, Path]) -> None:
    client.create("t", 1, segment_bytes="30000")
    fill(client)
    source, target = here(dirs)
    before = [path.read_bytes() for path in sorted((source / "t-0").glob("*.log"))]
    assert alter(client, target) == 0
    until(lambda: is_moved(source, target), "the replica to move")
    assert b"".join(path.read_bytes() for path in sorted((target / "t-0").glob("*.log"))) == (
        b"".join(before)
    )
    assert (client.offset("t", EARLIEST), client.offset("t", LATEST)) == (0, 200)
    assert client.produce("t", [b"after"]).base_offset == 200
    assert client.fetch("t", 0).records
    assert described(client).keys() == {target.name}
    until(lambda: list(source.glob("t-0.*-delete")), "the old replica to go")
    until(lambda: not (target / "t-0" / "future-is-complete").exists(), "the end of the move")


def test_it_moves_back_and_survives_restarts(dirs: tuple[Path, Path]) -> None:
    with broker(*dirs) as running, running.client() as client:
        client.create("t")
        fill(client, 3)
        source, target = here(dirs)
        for to, back in ((target, source), (source, target), (target, source)):
            assert alter(client, to) == 0
            until(partial(is_moved, back, to), "a move")
        assert client.produce("t", [b"last"]).base_offset == 30
    with broker(*dirs) as running, running.client() as client:
        assert here(dirs) == (target, source)
        assert client.offset("t", LATEST) == 31


def test_the_future_log_is_shown_throttled_and_cancelled(
    client: Client, dirs: tuple[Path, Path]
) -> None:
    client.create("t", 1, segment_bytes="300000")
    fill(client, 200)
    source, target = here(dirs)
    throttle(client, 1000)
    assert alter(client, target) == 0
    until(lambda: 0 < described(client)[target.name].offset_lag < 2000, "some records to be copied")
    (name,) = futures(target)
    assert re.fullmatch(r"t-0\.[0-9a-f]{32}-future", name)
    future, current = described(client)[target.name], described(client)[source.name]
    assert (future.is_future_key, current.is_future_key) == (True, False)
    assert (current.offset_lag, future.partition_size > 0) == (0, True)
    assert alter(client, target) == 0  # again: nothing changes
    assert futures(target) == [name]
    assert alter(client, source) == 0
    assert described(client).keys() == {source.name}
    assert not futures(target)
    assert values(client) == 2000


def test_a_move_goes_on_after_a_restart(dirs: tuple[Path, Path]) -> None:
    with broker(*dirs) as running, running.client() as client:
        client.create("t", 1, segment_bytes="300000")
        fill(client, 200)
        source, target = here(dirs)
        throttle(client, 1000)
        assert alter(client, target) == 0
        until(lambda: 0 < described(client)[target.name].offset_lag < 2000, "a part of the copy")
    (name,) = futures(target)
    with broker(*dirs) as running, running.client() as client:
        assert described(client)[target.name].is_future_key
        assert futures(target) == [name]
        assert values(client) == 2000
        throttle(client, 2**62)
        until(lambda: is_moved(source, target), "the move to end")
        assert values(client) == 2000


def test_producers_do_not_notice_a_move(
    running: Running, client: Client, dirs: tuple[Path, Path]
) -> None:
    client.create("t", 1, segment_bytes="100000")
    done, sent = threading.Event(), 0

    def produce() -> None:
        nonlocal sent
        with running.client() as own:
            while not done.is_set():
                answer = own.produce("t", [b"x" * 500] * 20, producer=(7, 0, sent))
                assert (answer.error_code, answer.base_offset) == (0, sent)
                sent += 20

    writer = threading.Thread(target=produce)
    writer.start()
    try:
        until(lambda: sent > 1000, "records")
        source, target = here(dirs)
        for to, back in ((target, source), (source, target)):
            assert alter(client, to) == 0
            until(partial(is_moved, back, to), "a move")
            until(partial(lambda before: sent > before + 200, sent), "records after the move")
    finally:
        done.set()
        writer.join()
    assert values(client) == sent
    # A retry is recognised by what the new log knows of the producer.
    again = client.produce("t", [b"x" * 500] * 20, producer=(7, 0, sent - 20))
    assert (again.error_code, again.base_offset) == (0, sent - 20)


def test_deleted_records_stay_deleted(client: Client, dirs: tuple[Path, Path]) -> None:
    client.create("t", 1, segment_bytes="30000")
    fill(client)
    source, target = here(dirs)
    asked = parts(name="t", partitions=(parts(partition_index=0, offset=55),))
    client.call(ApiKey.DELETE_RECORDS, topics=(asked,))
    assert alter(client, target) == 0
    until(lambda: is_moved(source, target), "a move")
    assert (client.offset("t", EARLIEST), client.offset("t", LATEST)) == (55, 200)


def test_an_empty_replica_moves(client: Client, dirs: tuple[Path, Path]) -> None:
    client.create("t")
    source, target = here(dirs)
    assert alter(client, target) == 0
    until(lambda: is_moved(source, target), "a move")
    assert client.produce("t", [b"first"]).base_offset == 0


def test_the_future_log_goes_with_its_topic(client: Client, dirs: tuple[Path, Path]) -> None:
    client.create("t")
    fill(client, 200)
    _, target = here(dirs)
    throttle(client, 1000)
    assert alter(client, target) == 0
    until(lambda: futures(target), "a future log")
    assert client.delete("t").error_code == 0
    until(lambda: not any(futures(each) or (each / "t-0").exists() for each in dirs), "no log")
    throttle(client, 2**62)
    until(lambda: client.can_create("t"), "the name to be free")
    client.create("t")
    assert client.offset("t", LATEST) == 0


def test_a_move_to_nowhere_or_of_nothing_is_refused(
    client: Client, dirs: tuple[Path, Path]
) -> None:
    client.create("t")
    source, target = here(dirs)
    unknown = ErrorCode.unknown_topic_or_partition
    assert alter(client, "/nowhere") == ErrorCode.log_dir_not_found
    assert alter(client, target.name) == ErrorCode.log_dir_not_found
    assert alter(client, f"{target}/") == ErrorCode.log_dir_not_found
    assert alter(client, target, "missing") == unknown
    assert alter(client, target, partition=7) == unknown
    assert alter(client, target, "x" * 240) == ErrorCode.invalid_topic_exception
    assert alter(client, source) == 0
    assert not any(map(futures, dirs))


@pytest.mark.parametrize("renamed", ["none", "future", "both but the file", "old"])
def test_a_crash_between_the_renames_loses_nothing(dirs: tuple[Path, Path], renamed: str) -> None:
    with broker(*dirs) as running, running.client() as client:
        client.create("t")
        fill(client, 5)
        source, target = here(dirs)
        assert alter(client, target) == 0
        until(lambda: is_moved(source, target), "a move")
        until(lambda: not (target / "t-0" / "future-is-complete").exists(), "the end of the move")
    # As a killed broker leaves it: the old log is back, or not; the new one has its name, or not.
    (old,) = source.glob("t-0.*-delete")
    (target / "t-0" / "future-is-complete").touch()
    for each in dirs:
        (each / ".kafka_cleanshutdown").unlink()
    future = target / f"t-0.{'0' * 32}-future"
    if renamed in ("none", "future"):
        old.rename(source / "t-0")
    if renamed in ("none", "old"):
        (target / "t-0").rename(future)
    with broker(*dirs) as running, running.client() as client:
        until(lambda: is_moved(source, target), "one log")
        assert values(client) == 50
        assert client.produce("t", [b"after"]).base_offset == 50


@pytest.mark.parametrize("failing", ["target", "source", "target at the rename"])
def test_a_log_directory_that_fails_in_the_middle_takes_only_its_own_log(
    dirs: tuple[Path, Path], failing: str
) -> None:
    disks: dict[Path, FaultyDisk] = {}

    def disk(folder: str) -> FaultyDisk:
        return disks.setdefault(Path(folder), FaultyDisk(folder))

    with broker(*dirs, disk=disk) as running, running.client() as client:
        if failing == "source":
            client.create("other")  # in the first log directory, which has the tree, too
        client.create("t")
        fill(client, 200)
        source, target = here(dirs)

        def fail(path: str) -> None:
            disks[target].failing = "-future" in path

        if failing == "target at the rename":
            disks[target].before_rename = fail
            assert alter(client, target) == 0
        else:
            throttle(client, 1000)
            assert alter(client, target) == 0
            until(lambda: described(client)[target.name].partition_size, "a part of the copy")
            disks[source if failing == "source" else target].failing = True
            throttle(client, 2**62)
            client.produce("t", [b"notices"])
        until(lambda: len(running.running.broker.logs.offline) == 1, "an offline log directory")
        code = client.produce("t", [b"after"]).error_code
        assert code == (ErrorCode.kafka_storage_error if failing == "source" else 0)
        assert alter(client, target) == ErrorCode.kafka_storage_error
    for each in disks.values():
        each.failing = False
    with broker(*dirs) as running, running.client() as client:
        until(lambda: is_moved(source, target), "the move to end")
        assert values(client) == 2000 + {"source": 0, "target": 2}.get(failing, 1)
