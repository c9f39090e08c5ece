"""Produce: what is taken, what is refused with which code, and what a refusal leaves alone."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.errors import DiskFault, LawBroken
from barnabas.log.log import Log
from barnabas.log.validation import validate
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.records.batch import headers
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import Record, build_batch
from tests.server.raw import (
    NOW,
    SOON,
    Insight,
    RawClient,
    api_versions,
    batch,
    broker,
    fetch,
    on_uvloop,
    produce,
    until,
    with_broker,
)

VERSIONS = range(APIS[ApiKey.PRODUCE].lowest, APIS[ApiKey.PRODUCE].highest + 1)
# Topics whose appends go the straight way, through validation, and through a thread.
PATHS: dict[str, dict[str, Any]] = {
    "plain": {},
    "own time": {"message_timestamp_type": "LogAppendTime"},
    "compacted": {"cleanup_policy": "compact"},
    "flushed": {"flush_messages": "1"},
    "recompressed": {"compression_type": "lz4"},
}
every_path = pytest.mark.parametrize("configs", PATHS.values(), ids=list(PATHS))


def answers(response: Any) -> list[Any]:
    return [p for topic in response.responses for p in topic.partition_responses]


def only(response: Any) -> Any:
    (partition,) = answers(response)
    return partition


def end(insight: Insight, topic: str, partition: int = 0) -> int:
    return insight.leader(topic, partition).log.log_end_offset


# -- by version --------------------------------------------------------------


@every_path
def test_every_version_gets_the_base_offset(tmp_path: Path, configs: dict[str, Any]) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()
        for n, version in enumerate([*VERSIONS, *VERSIONS]):
            sent = produce(("orders", 0, batch(b"one", b"two")), version=version)
            partition = only(await client.ask(sent))
            assert partition.error_code == ErrorCode.none
            assert partition.base_offset == 2 * n
            assert getattr(partition, "log_start_offset", 0) == 0
            own_time = "message_timestamp_type" in configs
            assert (partition.log_append_time is not None) == own_time
        assert end(insight, "orders") == 4 * len(VERSIONS)

    with_broker(tmp_path, scenario)


def test_log_append_time_replaces_the_producers_timestamp_in_log_and_response(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", message_timestamp_type="LogAppendTime")
        client = await insight.connect()
        appended = only(await client.ask(produce(("orders", 0, batch())))).log_append_time
        fetched = await client.ask(fetch(("orders", 0, 0)))
        records = bytes(fetched.responses[0].partitions[0].records)
        ((_, header),) = headers(records)
        assert header.log_append_time
        assert header.max_timestamp == round(appended.timestamp() * 1000)
        assert header.max_timestamp >= NOW

    with_broker(tmp_path, scenario)


# -- acks --------------------------------------------------------------------


@every_path
def test_acks_that_do_not_exist_are_refused(tmp_path: Path, configs: dict[str, Any]) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()
        for acks in (-2, 2, 100, -32768):
            sent = produce(("orders", 0, batch()), ("nowhere", 0, batch()), acks=acks)
            codes = [p.error_code for p in answers(await client.ask(sent))]
            assert codes == [ErrorCode.invalid_required_acks, ErrorCode.unknown_topic_or_partition]
            # And alone, which is another way through the broker.
            alone = only(await client.ask(produce(("orders", 0, batch()), acks=acks)))
            assert alone.error_code == ErrorCode.invalid_required_acks
        assert end(insight, "orders") == 0

    with_broker(tmp_path, scenario)


@every_path
def test_a_topic_of_one_replica_is_not_asked_for_more_in_sync(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs, min_insync_replicas="2")
        client = await insight.connect()
        for acks in (-1, 1):
            answer = only(await client.ask(produce(("orders", 0, batch()), acks=acks)))
            assert answer.error_code == ErrorCode.none
        assert end(insight, "orders") == 2

    with_broker(tmp_path, scenario)


@every_path
def test_acks_0_gets_no_response_and_stays_connected(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()
        for _ in range(5):
            await client.send(produce(("orders", 0, batch()), acks=0))
        await client.send(api_versions(9))
        assert await client.correlation_id() == 9
        await until(lambda: end(insight, "orders") == 5)

    with_broker(tmp_path, scenario)


@every_path
def test_a_failed_produce_with_acks_0_closes_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, configs: dict[str, Any]
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()
        damaged = bytearray(batch())
        damaged[-1] ^= 1
        await client.send(produce(("orders", 0, bytes(damaged)), acks=0))
        assert await client.is_closed()
        assert end(insight, "orders") == 0

    with_broker(tmp_path, scenario)
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("barnabas.c")]
    (line,) = [line for line in lines if "peer=" in line]
    assert "acks=0 failed code=corrupt_message" in line


# -- refusals ----------------------------------------------------------------


def zstd() -> bytes:
    return batch(codec=Codec.ZSTD)


REFUSED: list[tuple[bytes | None, int, ErrorCode]] = [
    (None, 9, ErrorCode.invalid_record),
    (b"", 9, ErrorCode.invalid_record),
    (b"short", 3, ErrorCode.invalid_record),
    (batch()[:-1], 9, ErrorCode.invalid_record),
    (batch() + batch(), 9, ErrorCode.invalid_record),
    (bytes(100), 9, ErrorCode.corrupt_message),
    (zstd(), 3, ErrorCode.unsupported_compression_type),
    (zstd(), 6, ErrorCode.unsupported_compression_type),
    (batch(bytes(5000)), 9, ErrorCode.message_too_large),
    (batch(control=True), 9, ErrorCode.invalid_record),
    (batch(producer_id=1, producer_epoch=0, base_sequence=-1), 9, ErrorCode.invalid_record),
]


@every_path
def test_what_cannot_be_taken_is_refused_with_kafkas_code_and_the_log_left_alone(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", max_message_bytes="4000", **configs)
        client = await insight.connect()
        for records, version, code in REFUSED:
            partition = only(await client.ask(produce(("orders", 0, records), version=version)))
            assert partition.error_code == code
            assert (partition.base_offset, partition.log_append_time) == (-1, None)
            assert end(insight, "orders") == 0
        taken = only(await client.ask(produce(("orders", 0, zstd()), version=7)))
        assert taken.error_code == ErrorCode.none

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [7, 8, 11])
def test_records_that_are_refused_are_named_one_by_one_from_version_8_on(
    tmp_path: Path, version: int
) -> None:
    keyless = bytes(build_batch([Record(0, NOW, b"key", b"v", ()), Record(1, NOW, None, b"v", ())]))

    async def scenario(insight: Insight) -> None:
        await insight.create("orders", cleanup_policy="compact")
        client = await insight.connect()
        partition = only(await client.ask(produce(("orders", 0, keyless), version=version)))
        assert partition.error_code == ErrorCode.invalid_record
        if version >= 8:
            assert [error.batch_index for error in partition.record_errors] == [1]
            assert "key" in partition.record_errors[0].batch_index_error_message
            assert "1 records are refused" in partition.error_message
        assert end(insight, "orders") == 0

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_of_several_partitions_one_fails_alone(tmp_path: Path, version: int) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=2)
        await insight.create("payments", cleanup_policy="compact")
        client = await insight.connect()
        damaged = bytearray(batch())
        damaged[-1] ^= 1
        sent = produce(
            ("orders", 0, batch()),
            ("orders", 7, batch()),
            ("nowhere", 0, batch()),
            ("orders", 1, bytes(damaged)),
            ("payments", 0, batch()),
            version=version,
        )
        response = await client.ask(sent)
        assert [
            (topic.name, p.index, p.error_code.name)
            for topic in response.responses
            for p in topic.partition_responses
        ] == [
            ("orders", 0, "none"),
            ("orders", 7, "unknown_topic_or_partition"),
            ("nowhere", 0, "unknown_topic_or_partition"),
            ("orders", 1, "corrupt_message"),
            ("payments", 0, "none"),
        ]
        ends = [end(insight, "orders"), end(insight, "orders", 1), end(insight, "payments")]
        assert ends == [1, 0, 1]

    with_broker(tmp_path, scenario)


def test_a_produce_of_nothing_is_answered_with_nothing(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        for version in VERSIONS:
            assert (await client.ask(produce(version=version))).responses == ()

    with_broker(tmp_path, scenario)


# -- idempotent producers ----------------------------------------------------


def numbered(sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 2) -> bytes:
    values = [b"%d" % n for n in range(count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def outcome(client: RawClient, records: bytes) -> tuple[ErrorCode, int]:
    partition = only(await client.ask(produce(("orders", 0, records))))
    return partition.error_code, partition.base_offset


@every_path
def test_a_duplicate_batch_gets_its_first_offset_and_is_not_appended(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()
        for n in range(3):
            assert await outcome(client, numbered(2 * n)) == (ErrorCode.none, 2 * n)
        for n in (2, 0, 1):
            assert await outcome(client, numbered(2 * n)) == (ErrorCode.none, 2 * n)
        assert end(insight, "orders") == 6

    with_broker(tmp_path, scenario)


@every_path
def test_a_gap_in_the_sequence_is_refused(tmp_path: Path, configs: dict[str, Any]) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()
        await outcome(client, numbered(0))
        assert await outcome(client, numbered(5)) == (ErrorCode.out_of_order_sequence_number, -1)
        assert await outcome(client, numbered(2)) == (ErrorCode.none, 2)

    with_broker(tmp_path, scenario)


@every_path
def test_an_old_producer_epoch_is_fenced_and_a_new_one_starts_at_sequence_0(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()
        await outcome(client, numbered(0, epoch=3))
        assert await outcome(client, numbered(2, epoch=2)) == (ErrorCode.invalid_producer_epoch, -1)
        wrong = await outcome(client, numbered(2, epoch=4))
        assert wrong == (ErrorCode.out_of_order_sequence_number, -1)
        assert await outcome(client, numbered(0, epoch=4)) == (ErrorCode.none, 2)
        assert end(insight, "orders") == 4

    with_broker(tmp_path, scenario)


def test_duplicates_are_known_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker(tmp_path) as insight:
            await insight.create("orders")
            client = await insight.connect()
            await outcome(client, numbered(0))
            await outcome(client, numbered(2))
        async with broker(tmp_path) as insight:
            client = await insight.connect()
            assert await outcome(client, numbered(2)) == (ErrorCode.none, 2)
            assert await outcome(client, numbered(4)) == (ErrorCode.none, 4)

    on_uvloop(scenario())


# -- nothing half done -------------------------------------------------------


def test_a_request_whose_second_half_is_damaged_leaves_no_trace_of_its_first(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with broker(tmp_path) as insight:
            await insight.create("orders", partitions=2)
            client = await insight.connect()
            whole = produce(("orders", 0, batch()), ("orders", 1, batch()))
            cut = whole[:-30]
            await client.send((len(cut) - 4).to_bytes(4, "big") + cut[4:])
            assert await client.is_closed()
            assert [end(insight, "orders", n) for n in range(2)] == [0, 0]
        async with broker(tmp_path) as insight:
            assert [end(insight, "orders", n) for n in range(2)] == [0, 0]

    on_uvloop(scenario())


@every_path
def test_a_failing_disk_is_reported_and_other_log_directories_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=2, **configs)
        client = await insight.connect()
        folder = insight.leader("orders", 0).log.disk.log_dir

        def fail(*_: Any, **__: Any) -> None:
            raise DiskFault(folder, OSError(28, "No space left on device"))

        with monkeypatch.context() as broken:
            broken.setattr(Log, "append", fail)
            broken.setattr(Log, "append_batches", fail)
            partition = only(await client.ask(produce(("orders", 0, batch()))))
            assert partition.error_code == ErrorCode.kafka_storage_error
        partition = only(await client.ask(produce(("orders", 0, batch()))))
        assert partition.error_code == ErrorCode.kafka_storage_error
        partition = only(await client.ask(produce(("orders", 1, batch()))))
        assert partition.error_code == ErrorCode.none

    good, bad = tmp_path / "good", tmp_path / "bad"
    with_broker(good, scenario, log_dirs=f"{good},{bad}")


@every_path
def test_a_broken_law_stops_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        client = await insight.connect()

        def fail(*_: Any, **__: Any) -> None:
            raise LawBroken("LOG-1")

        with monkeypatch.context() as broken:
            broken.setattr(Log, "append", fail)
            broken.setattr(Log, "append_batches", fail)
            await client.send(produce(("orders", 0, batch())))
            assert await client.is_closed()
        assert isinstance(insight.running.failed.result(), LawBroken)

    with_broker(tmp_path, scenario)


def test_a_stopping_broker_finishes_what_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*args: Any, **limits: Any) -> Any:
        begun.set()
        assert go_on.wait(SOON)
        return validate(*args, **limits)

    async def scenario() -> None:
        async with broker(tmp_path) as insight:
            await insight.create("orders", flush_messages="1")
            client = await insight.connect()
            monkeypatch.setattr("barnabas.server.requests.partition_append.validate", slowly)
            await client.send(produce(("orders", 0, batch())))
            await until(begun.is_set)
            stopping = asyncio.ensure_future(insight.running.stop())
            await until(lambda: len(insight.connections) == 0)
            go_on.set()
            await stopping
        async with broker(tmp_path) as insight:
            assert end(insight, "orders") == 1

    on_uvloop(scenario())
