"""Periodic work of a broker, seen from outside: retention, flushes, checkpoints."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import EARLIEST, LATEST, Client, parts
from tests.server.admin.running import Running, broker, until

T0 = TopicPartition("t", 0)


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Running]:
    """A broker that looks after its logs all the time."""
    with broker(
        tmp_path,
        log_retention_check_interval_ms="10",
        log_flush_scheduler_interval_ms="10",
        log_flush_offset_checkpoint_interval_ms="10",
        producer_id_expiration_check_interval_ms="10",
        producer_id_expiration_ms="50",
    ) as running:
        yield running


def segments(folder: Path, topic: str = "t") -> list[str]:
    return sorted(path.name for path in (folder / f"{topic}-0").glob("*.log*"))


def log_of(running: Running, partition: TopicPartition = T0) -> Log:
    found = running.running.broker.logs.get(partition)
    assert found is not None
    return found


def alter(client: Client, topic: str, key: str, value: str) -> None:
    config = parts(name=key, config_operation=0, value=value)
    resource = parts(resource_type=2, resource_name=topic, configs=(config,))
    (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,)).responses
    assert result.error_code == ErrorCode.none, result


def test_records_that_are_too_old_go_the_active_segment_included(
    busy: Running, tmp_path: Path
) -> None:
    with busy.client() as client:
        client.create("t", 1, retention_ms="1000", segment_bytes="1000", file_delete_delay_ms="0")
        for _ in range(3):
            client.produce("t", [b"x" * 900], timestamp=now_ms() - 60_000)
        until(lambda: client.offset("t", EARLIEST) == 3, "old records to go")
        assert client.offset("t", LATEST) == 3
        until(lambda: segments(tmp_path) == [f"{3:020}.log"], "their files to go")
        assert client.fetch("t", 0).error_code == ErrorCode.offset_out_of_range
        assert client.produce("t", [b"new"], timestamp=now_ms()).base_offset == 3


def test_records_that_are_young_stay(busy: Running) -> None:
    with busy.client() as client:
        client.create("t", 1, retention_ms="3600000", segment_bytes="1000")
        client.create("old", 1, retention_ms="1000")
        for _ in range(3):
            client.produce("t", [b"x" * 900], timestamp=now_ms())
        client.produce("old", timestamp=1)
        until(lambda: client.offset("old", EARLIEST) == 1, "retention to have run")
        assert client.offset("t", EARLIEST) == 0


def test_retention_follows_an_alteration(busy: Running) -> None:
    with busy.client() as client:
        client.create("t", 1, retention_ms="-1")
        client.produce("t", timestamp=1)
        assert client.offset("t", EARLIEST) == 0
        alter(client, "t", "retention.ms", "1000")
        until(lambda: client.offset("t", EARLIEST) == 1, "the record to go")


def test_retention_follows_an_alteration_of_the_broker(busy: Running) -> None:
    with busy.client() as client:
        client.create("t")
        client.produce("t", timestamp=now_ms() - 60_000)
        assert client.offset("t", EARLIEST) == 0
        config = parts(name="log.retention.ms", config_operation=0, value="1000")
        resource = parts(resource_type=4, resource_name="", configs=(config,))
        client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,))
        until(lambda: client.offset("t", EARLIEST) == 1, "the record to go")


def test_a_partition_that_is_too_large_loses_its_oldest_segments(
    busy: Running, tmp_path: Path
) -> None:
    with busy.client() as client:
        client.create(
            "t", 1, retention_bytes="2500", segment_bytes="1000", file_delete_delay_ms="0"
        )
        for _ in range(6):
            client.produce("t", [b"x" * 800], timestamp=now_ms())
        until(lambda: client.offset("t", EARLIEST) == 3, "the oldest segments to go")
        until(lambda: len(segments(tmp_path)) == 3, "their files to go")
        assert client.offset("t", LATEST) == 6


def test_a_compacted_topic_keeps_its_records(busy: Running) -> None:
    with busy.client() as client:
        client.create("t", 1, retention_ms="1")
        client.create("c", 1, retention_ms="1", cleanup_policy="compact")
        assert client.produce("c", timestamp=1, key=b"k").error_code == ErrorCode.none
        client.produce("t", timestamp=1)
        until(lambda: client.offset("t", EARLIEST) == 1, "retention to have run")
        assert client.offset("c", EARLIEST) == 0


def test_records_are_flushed_by_number_before_they_are_answered(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t", 1, flush_messages="3")
        client.produce("t", [b"x"] * 2)
        assert log_of(running).recovery_point == 0
        client.produce("t", [b"x"])
        assert log_of(running).recovery_point == 3


def test_records_are_flushed_by_time(busy: Running) -> None:
    with busy.client() as client:
        client.create("t", 1, flush_ms="20")
        client.produce("t", [b"x"] * 2)
        until(lambda: log_of(busy).recovery_point == 2, "a flush")


def test_a_segment_that_rolled_is_flushed_soon(busy: Running) -> None:
    with busy.client() as client:
        client.create("t", 1, segment_bytes="1000", flush_ms=str(2**62))
        client.produce("t", [b"x" * 900], timestamp=now_ms())
        client.produce("t", [b"x" * 900], timestamp=now_ms())
        until(lambda: log_of(busy).recovery_point == 1, "a flush")


def test_checkpoints_hold_the_current_offsets(busy: Running, tmp_path: Path) -> None:
    def has(name: str, line: str) -> bool:
        path = tmp_path / name
        return path.exists() and line in path.read_text().splitlines()

    with busy.client() as client:
        client.create("t", 1, flush_ms="20")
        client.produce("t", [b"x"] * 4, timestamp=now_ms())
        asked = parts(name="t", partitions=(parts(partition_index=0, offset=3),))
        client.call(ApiKey.DELETE_RECORDS, topics=(asked,))
        until(lambda: has("replication-offset-checkpoint", "t 0 4"), "the high watermark")
        until(lambda: has("recovery-point-offset-checkpoint", "t 0 4"), "the recovery point")
        until(lambda: has("log-start-offset-checkpoint", "t 0 3"), "the log start")


def test_idle_producers_are_forgotten_by_what_is_configured_now(tmp_path: Path) -> None:
    with (
        broker(tmp_path, producer_id_expiration_check_interval_ms="10") as running,
        running.client() as client,
    ):
        client.create("t")
        client.produce("t", timestamp=now_ms(), producer=(7, 0, 0))
        assert not log_of(running).producers.is_empty
        config = parts(name="producer.id.expiration.ms", config_operation=0, value="1")
        resource = parts(resource_type=4, resource_name="", configs=(config,))
        client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,))
        until(lambda: log_of(running).producers.is_empty, "the producer to be forgotten")


def test_idle_producers_are_forgotten(busy: Running) -> None:
    with busy.client() as client:
        client.create("t")
        answer = client.produce("t", timestamp=now_ms(), producer=(7, 0, 0))
        assert answer.error_code == ErrorCode.none
        until(lambda: log_of(busy).producers.is_empty, "the producer to be forgotten")
        # Its next batch but one is taken now, as if it were a new producer's.
        answer = client.produce("t", timestamp=now_ms(), producer=(7, 0, 5))
        assert answer.error_code == ErrorCode.none
