"""Reading what is committed: ListOffsets, fetches with open transactions, DescribeProducers."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.wire.apis import ApiKey
from barnabas.wire.records.batch import headers
from tests.server.raw import NOW, Insight, batch, fetch, produce, request, with_broker
from tests.server.test_write_txn_markers import PID, markers, write

EMPTY = (b"", None)


def list_offset(timestamp: int, level: int) -> bytes:
    schema: Any = import_module("kio.schema.list_offsets.v7.request")
    partition = schema.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=timestamp
    )
    message = schema.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=level,
        topics=(schema.ListOffsetsTopic(name="t", partitions=(partition,)),),
    )
    return request(ApiKey.LIST_OFFSETS, 7, message)


def only(response: Any) -> Any:
    (topic,) = getattr(response, "responses", None) or response.topics
    (partition,) = topic.partitions
    return partition


def test_t39_the_latest_offset_is_the_last_stable_one(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        await client.ask(produce(("t", 0, batch(b"plain"))))
        write(insight)
        for level, latest in ((0, 2), (1, 1)):
            assert only(await client.ask(list_offset(-1, level))).offset == latest
        later = NOW + 1
        await client.ask(produce(("t", 0, batch(b"a", b"b"))))
        assert only(await client.ask(list_offset(later, 0))).offset == 3
        assert only(await client.ask(list_offset(later, 1))).offset == -1

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [4, 11, 12])
def test_t36_a_fetch_ends_before_the_first_open_transaction(tmp_path: Path, version: int) -> None:
    """T38: a reader of everything gets it, and no list."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        await client.ask(produce(("t", 0, batch(b"plain"))))
        write(insight)
        for level, batches in ((1, 1), (0, 2)):
            got = only(await client.ask(fetch(("t", 0, 0), version=version, isolation_level=level)))
            assert len(list(headers(bytes(got.records)))) == batches
            assert (got.high_watermark, got.last_stable_offset) == (2, 1)
            assert got.aborted_transactions == (() if level else None)
        at_end = only(await client.ask(fetch(("t", 0, 1), version=version, isolation_level=1)))
        assert at_end.records in EMPTY
        await client.ask(markers(("t", 0), commit=False))
        got = only(await client.ask(fetch(("t", 0, 0), version=version, isolation_level=1)))
        assert [(each.producer_id, each.first_offset) for each in got.aborted_transactions] == [
            (PID, 1)
        ]
        everything = only(await client.ask(fetch(("t", 0, 0), version=version)))
        assert everything.aborted_transactions is None

    with_broker(tmp_path, scenario)


def test_t37_the_fast_path_beyond_the_last_aborted_one_has_an_empty_list(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        write(insight)
        await client.ask(markers(("t", 0), commit=False))
        await client.ask(produce(("t", 0, batch(b"plain"))))
        for offset, count in ((0, 1), (1, 1), (2, 0), (2, 0)):
            got = only(await client.ask(fetch(("t", 0, offset), isolation_level=1)))
            assert len(got.aborted_transactions) == count

    with_broker(tmp_path, scenario)


def test_t44_described_producers_show_their_open_transactions(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        schema: Any = import_module("kio.schema.describe_producers.v0.request")
        message = schema.DescribeProducersRequest(
            topics=(schema.TopicRequest(name="t", partition_indexes=(0,)),)
        )
        write(insight)
        for start, epoch in ((0, -1), (-1, 4)):
            partition = only(await client.ask(request(ApiKey.DESCRIBE_PRODUCERS, 0, message)))
            assert partition.error_code is ErrorCode.none
            (state,) = partition.active_producers
            assert (state.producer_id, state.current_txn_start_offset) == (PID, start)
            assert state.coordinator_epoch == epoch
            await client.ask(markers(("t", 0), coordinator_epoch=4))

    with_broker(tmp_path, scenario)
