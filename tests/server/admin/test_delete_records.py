"""DeleteRecords: the start of a log moves up and stays there."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import EARLIEST, LATEST, Client, parts
from tests.server.admin.running import broker, until

VERSIONS = range(3)


def delete(client: Client, topic: str, offset: int, version: int = 2, partition: int = 0) -> Any:
    asked = parts(partition_index=partition, offset=offset)
    (told,) = client.call(
        ApiKey.DELETE_RECORDS, version, topics=(parts(name=topic, partitions=(asked,)),)
    ).topics
    assert told.name == topic
    return told.partitions[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_lies_before_an_offset_goes(client: Client, version: int) -> None:
    name = f"before-{version}"
    client.create(name)
    client.produce(name, [b"x"] * 5)
    result = delete(client, name, 3, version)
    assert (result.partition_index, result.error_code, result.low_watermark) == (0, 0, 3)
    assert (client.offset(name, EARLIEST), client.offset(name, LATEST)) == (3, 5)
    assert client.fetch(name, 2).error_code == ErrorCode.offset_out_of_range
    assert client.fetch(name, 3).log_start_offset == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_minus_one_is_the_high_watermark(client: Client, version: int) -> None:
    name = f"all-{version}"
    client.create(name)
    client.produce(name, [b"x"] * 5)
    assert delete(client, name, -1, version).low_watermark == 5
    assert client.offset(name, EARLIEST) == 5
    assert client.produce(name).base_offset == 5


def test_the_start_never_moves_down(client: Client) -> None:
    client.create("down")
    client.produce("down", [b"x"] * 5)
    delete(client, "down", 4)
    result = delete(client, "down", 2)
    assert (result.error_code, result.low_watermark) == (ErrorCode.none, 4)


@pytest.mark.parametrize("offset", [6, -2, 2**40])
def test_an_offset_that_is_not_there_is_refused(client: Client, offset: int) -> None:
    name = f"range-{offset}"
    client.create(name)
    client.produce(name, [b"x"] * 5)
    result = delete(client, name, offset)
    assert (result.error_code, result.low_watermark) == (ErrorCode.offset_out_of_range, -1)
    assert client.offset(name, EARLIEST) == 0


def test_a_topic_that_is_only_compacted_keeps_its_records(client: Client) -> None:
    client.create("compacted", 1, cleanup_policy="compact")
    result = delete(client, "compacted", 0)
    assert (result.error_code, result.low_watermark) == (ErrorCode.policy_violation, -1)
    client.create("both", 1, cleanup_policy="compact,delete")
    assert delete(client, "both", 0).error_code == ErrorCode.none


def test_the_brokers_own_topics_keep_their_records(client: Client) -> None:
    client.create("__consumer_offsets")
    result = delete(client, "__consumer_offsets", 0)
    assert result.error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_is_not_there(client: Client, version: int) -> None:
    result = delete(client, "nowhere", 0, version)
    assert result.error_code == ErrorCode.unknown_topic_or_partition
    assert result.low_watermark == -1


def test_the_start_survives_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t")
        client.produce("t", [b"x"] * 5)
        delete(client, "t", 3)
    with broker(tmp_path) as running, running.client() as client:
        assert client.offset("t", EARLIEST) == 3


def test_a_checkpointed_start_survives_a_crash(tmp_path: Path) -> None:
    folder, crashed = tmp_path / "data", tmp_path / "crashed"
    with (
        broker(folder, log_flush_offset_checkpoint_interval_ms="20") as running,
        running.client() as client,
    ):
        client.create("t")
        client.produce("t", [b"x"] * 5)
        delete(client, "t", 3)
        checkpoint = folder / "log-start-offset-checkpoint"
        until(lambda: checkpoint.exists() and "t 0 3" in checkpoint.read_text(), "the checkpoint")
        shutil.copytree(folder, crashed, ignore=shutil.ignore_patterns("*.tmp"))
    with broker(crashed) as running, running.client() as client:
        assert (client.offset("t", EARLIEST), client.offset("t", LATEST)) == (3, 5)
