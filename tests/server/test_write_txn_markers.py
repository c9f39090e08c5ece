"""WriteTxnMarkers: end markers from a transaction coordinator, in Kafka's bytes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.errors import BrokerError
from barnabas.log.producers.producer_state import NO_TRANSACTION
from barnabas.log.producers.verification import UNGUARDED
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.records.batch import headers
from barnabas.wire.records.records import ControlType, read_marker, read_records
from barnabas.wire.schema import request_type
from tests.server.raw import (
    NOW,
    SOON,
    Insight,
    RawClient,
    batch,
    fetch,
    known,
    request,
    until,
    with_broker,
)

VERSIONS = range(APIS[ApiKey.WRITE_TXN_MARKERS].highest + 1)
PID = 7


def markers(
    *partitions: tuple[str, int],
    producer_id: int = PID,
    epoch: int = 0,
    commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 1,
    transaction_version: int = 0,
) -> bytes:
    """A request with one marker for these partitions."""
    return several(
        version,
        {
            "partitions": partitions,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": commit,
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": transaction_version,
        },
    )


def several(version: int, *wanted: dict[str, Any]) -> bytes:
    whole: Any = request_type(ApiKey.WRITE_TXN_MARKERS, version)
    marker = whole.__annotations__["markers"].__args__[0]
    topic = marker.__annotations__["topics"].__args__[0]
    made = tuple(
        known(
            marker,
            topics=tuple(
                topic(name=name, partition_indexes=(index,))
                for name, index in each.pop("partitions")
            ),
            **each,
        )
        for each in wanted
    )
    return request(ApiKey.WRITE_TXN_MARKERS, version, whole(markers=made))


def codes(response: Any) -> list[ErrorCode]:
    return [
        each.error_code
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    ]


def write(insight: Insight, topic: str = "t", epoch: int = 0, sequence: int = 0) -> None:
    """Data of a transaction, in the leader's log as if it had been verified."""
    leader = insight.leader(topic)
    records = memoryview(
        bytearray(
            batch(
                b"data",
                producer_id=PID,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
    )
    leader.append(records, NOW, guard=UNGUARDED)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_is_a_control_batch_in_kafkas_bytes(tmp_path: Path, version: int) -> None:
    """T23, T24."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        asked = markers(("t", 0), epoch=3, coordinator_epoch=5, version=version)
        response = await client.ask(asked)
        assert codes(response) == [ErrorCode.none]
        assert response.markers[0].producer_id == PID
        log = insight.leader("t").log
        data = log.locate(0, 2**20, log.log_end_offset).load()
        ((_, header),) = headers(data)
        assert header.is_control
        assert header.is_transactional
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PID, 3, -1)
        (record,) = read_records(data)
        assert (record.key, record.value) == (b"\0\0\0\1", b"\0\0\0\0\0\5")
        marker = read_marker(data)
        assert marker is not None
        assert (marker.control_type, marker.coordinator_epoch) == (ControlType.COMMIT, 5)

    with_broker(tmp_path, scenario)


def test_each_partition_has_its_own_error_under_its_producer(tmp_path: Path) -> None:
    """T23."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t", 2)
        client = await insight.connect()
        entry = {"producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
        asked = several(
            1,
            {"partitions": (("t", 0), ("t", 9), ("none", 0)), "producer_id": 1, **entry},
            {"partitions": (("t", 0), ("t", 1)), "producer_id": 2, **entry},
        )
        response = await client.ask(asked)
        assert [marker.producer_id for marker in response.markers] == [1, 2]
        unknown = ErrorCode.unknown_topic_or_partition
        none = ErrorCode.none
        assert codes(response) == [none, unknown, unknown, none, none]
        ends = [insight.leader("t", n).log.log_end_offset for n in range(2)]
        assert ends == [2, 1]  # one append per marker

    with_broker(tmp_path, scenario)


def test_markers_of_a_past_epoch_or_coordinator_are_fenced(tmp_path: Path) -> None:
    """T24."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        await client.ask(markers(("t", 0), epoch=4, coordinator_epoch=6))
        past = await client.ask(markers(("t", 0), epoch=3, coordinator_epoch=6))
        fenced = await client.ask(markers(("t", 0), epoch=4, coordinator_epoch=5))
        assert codes(past) == [ErrorCode.invalid_producer_epoch]
        assert codes(fenced) == [ErrorCode.transaction_coordinator_fenced]
        assert insight.leader("t").log.log_end_offset == 1

    with_broker(tmp_path, scenario)


def test_a_marker_is_flushed_before_it_is_answered_if_each_record_is(tmp_path: Path) -> None:
    """A leader that lost power would otherwise come back without the outcome."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t", flush_messages="1")
        client = await insight.connect()
        assert codes(await client.ask(markers(("t", 0)))) == [ErrorCode.none]
        log = insight.leader("t").log
        assert (log.log_end_offset, log.unflushed_messages) == (1, 0)

    with_broker(tmp_path, scenario)


def test_a_marker_without_data_moves_no_last_stable_offset(tmp_path: Path) -> None:
    """T26: no entry in the index, but epoch, coordinator epoch and timestamp are kept."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        write_other = markers(("t", 0), epoch=2, commit=False, coordinator_epoch=3)
        assert codes(await client.ask(write_other)) == [ErrorCode.none]
        log = insight.leader("t").log
        state = log.producers.producers[PID]
        assert (state.producer_epoch, state.coordinator_epoch) == (2, 3)
        assert state.last_timestamp > 0
        assert insight.leader("t").last_stable_offset == 1
        assert log.disk.load(f"{log.directory}/{0:020}.txnindex") is None

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_a_marker_that_is_sent_again_is_harmless(tmp_path: Path, transaction_version: int) -> None:
    """T27: a lost answer, or another coordinator that finds the transaction prepared."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        write(insight)
        epoch = 1 if transaction_version else 0
        for coordinator_epoch in (0, 0, 1):
            asked = markers(
                ("t", 0),
                epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                version=2,
                transaction_version=transaction_version,
            )
            assert codes(await client.ask(asked)) == [ErrorCode.none]
        state = insight.leader("t").log.producers.producers[PID]
        assert state.current_txn_first_offset == NO_TRANSACTION
        assert insight.leader("t").last_stable_offset == insight.leader("t").high_watermark

    with_broker(tmp_path, scenario)


def test_with_version_2_a_delayed_marker_does_not_end_the_next_transaction(tmp_path: Path) -> None:
    """T27: KIP-1228."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        write(insight)
        marker = markers(("t", 0), epoch=1, version=2, transaction_version=2)
        assert codes(await client.ask(marker)) == [ErrorCode.none]
        write(insight, epoch=1)
        assert codes(await client.ask(marker)) == [ErrorCode.invalid_producer_epoch]
        log = insight.leader("t").log
        assert log.producers.has_ongoing(PID, 1)

    with_broker(tmp_path, scenario)


def test_a_marker_goes_to_the_topic_of_that_name_now(tmp_path: Path) -> None:
    """T28: a topic that was deleted and created again has no trace of the old one."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        write(insight)
        old = insight.leader("t").log
        await insight.running.broker.topics.delete("t")
        await until(lambda: insight.running.broker.replicas.find("t", 0) is None)
        gone = await client.ask(markers(("t", 0)))
        assert codes(gone) == [ErrorCode.unknown_topic_or_partition]
        await _created_again(insight)
        assert codes(await client.ask(markers(("t", 0)))) == [ErrorCode.none]
        assert insight.leader("t").log is not old
        assert old.log_end_offset == 1

    with_broker(tmp_path, scenario)


async def _created_again(insight: Insight) -> None:
    async with asyncio.timeout(SOON):
        while True:
            try:
                await insight.create("t")
                return
            except BrokerError:  # it is still marked for deletion
                await asyncio.sleep(0.01)


async def _waiting_fetch(insight: Insight, client: RawClient) -> "asyncio.Task[Any]":
    asked = fetch(("t", 0, 0), isolation_level=1, max_wait_ms=20_000)
    task = asyncio.ensure_future(client.ask(asked))
    await until(lambda: insight.delayed.waiting == 1)
    return task


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_wakes_the_fetch_that_waits_for_it(tmp_path: Path, commit: bool) -> None:
    """T23, T36: and the fetch has the list of aborted transactions (KAFKA-5355, KAFKA-5376)."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        reader, writer = await insight.connect(), await insight.connect()
        write(insight)
        task = await _waiting_fetch(insight, reader)
        assert codes(await writer.ask(markers(("t", 0), commit=commit))) == [ErrorCode.none]
        (topic,) = (await task).responses
        (partition,) = topic.partitions
        assert len(list(headers(bytes(partition.records)))) == 2
        aborted = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions]
        assert aborted == ([] if commit else [(PID, 0)])

    with_broker(tmp_path, scenario)
