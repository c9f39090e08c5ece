"""Read tasks against a broker, without Spark: codecs, gaps, data loss, broker restarts."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from barnabas.client.aborted_batches import committed
from barnabas.spark.source.filters import Selection
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.partition_fetcher import PartitionFetcher
from barnabas.spark.source.read_plan import plan
from barnabas.spark.source.read_task import ALL_TIMES, read_range
from barnabas.spark.source.record_decoder import ColumnBuffers
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import DataLoss, SparkFailure
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from tests.spark.conftest import Fill, create_topic, produce
from tests.support.broker import BrokerProcess


def read_options(bootstrap: str, topic: str, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return SourceOptions.of(given | more, streaming=False)


def read_all(options: SourceOptions) -> list[bytes]:
    """The values of all records, in order of partitions."""
    return [value for each in plan(options, Selection()) for value in _read(each, options)]


def _read(wanted: OffsetRange, options: SourceOptions) -> list[bytes]:
    return [value for taken in read_range(wanted, options, ALL_TIMES) for value in _values(taken)]


def _values(taken: ColumnBuffers) -> list[bytes]:
    rows, values = taken[0], taken[5]
    ends = memoryview(values[0]).cast("B").cast("i")
    return [bytes(values[1][ends[row] : ends[row + 1]]) for row in range(rows)]


def many(number: int, size: int = 10) -> list[dict[str, Any]]:
    return [{"value": b"%d" % n + b"." * size} for n in range(number)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_read(
    fill: Fill, served: BrokerProcess, topic: str, codec: str
) -> None:
    fill(many(500), compression_type=codec, linger_ms="50")

    found = read_all(read_options(served.bootstrap, topic))

    assert found == [record["value"] for record in many(500)]


def test_a_range_of_many_fetches_is_read_completely(
    fill: Fill, served: BrokerProcess, topic: str
) -> None:
    fill(many(2000, 200), batch_size="3000")
    options = read_options(served.bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "9000"})

    assert read_all(options) == [record["value"] for record in many(2000, 200)]


def test_a_task_reads_only_its_range(fill: Fill, served: BrokerProcess, topic: str) -> None:
    fill(many(100), linger_ms="50")
    options = read_options(served.bootstrap, topic, minPartitions="3")

    parts = [_read(each, options) for each in plan(options, Selection())]

    assert [len(part) for part in parts] == [33, 33, 34]
    assert [value for part in parts for value in part] == [record["value"] for record in many(100)]


def test_deleted_records_are_an_error_or_skipped(
    fill: Fill, served: BrokerProcess, topic: str
) -> None:
    fill(many(20), linger_ms="0")
    (wanted,) = plan(read_options(served.bootstrap, topic), Selection())
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    for deleted in admin.delete_records([Partition(topic, 0, 15)]).values():
        deleted.result(30)

    with pytest.raises(DataLoss) as told:
        _read(wanted, read_options(served.bootstrap, topic))
    assert str(told.value) == (
        f"records of {topic}-0 are lost: offset 0 is gone, the log now has offsets 15 to 20; to go"
        " on without them, set failOnDataLoss to false"
    )
    goes_on = _read(wanted, read_options(served.bootstrap, topic, failOnDataLoss="false"))
    assert goes_on == [record["value"] for record in many(20)[15:]]


def test_offsets_after_the_end_are_an_error_or_skipped(
    fill: Fill, served: BrokerProcess, topic: str
) -> None:
    fill(many(5))
    soon = {"kafka.default.api.timeout.ms": "300"}
    options = read_options(served.bootstrap, topic, **soon)
    (wanted,) = plan(options, Selection())
    too_far = OffsetRange(wanted.partition, wanted.topic_id, 0, 9, wanted.leader)

    with pytest.raises(DataLoss, match="ends at offset 5, though offsets to 9 were there before"):
        _read(too_far, options)
    goes_on = read_options(served.bootstrap, topic, failOnDataLoss="false", **soon)
    assert len(_read(too_far, goes_on)) == 5


def test_a_topic_deleted_during_a_read_is_reported(
    fill: Fill, served: BrokerProcess, topic: str
) -> None:
    fill(many(5))
    options = read_options(served.bootstrap, topic)
    (wanted,) = plan(options, Selection())
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.delete_topics([topic])[topic].result(30)

    with pytest.raises(SparkFailure, match=f"topic {topic} was deleted while it was read"):
        _read(wanted, options)


def test_a_read_waits_for_a_broker_that_restarts(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, many(300), batch_size="1000")
    options = read_options(broker.bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "2000"})
    (wanted,) = plan(options, Selection())

    found = 0
    with PartitionFetcher(wanted, options) as fetcher:
        batches = iter(fetcher)
        found += sum(header.record_count for header, _ in next(batches))
        broker.kill()
        broker.start()
        found += sum(header.record_count for each in batches for header, _ in each)

    assert found == 300


def test_a_closed_idle_connection_is_reopened(
    fill: Fill, served: BrokerProcess, topic: str
) -> None:
    fill(many(300), batch_size="1000")
    options = read_options(
        served.bootstrap,
        topic,
        **{"kafka.max.partition.fetch.bytes": "2000", "kafka.default.api.timeout.ms": "1000"},
    )
    (wanted,) = plan(options, Selection())

    found = 0
    with PartitionFetcher(wanted, options) as fetcher:
        for turn, batches in enumerate(fetcher):
            found += sum(header.record_count for header, _ in batches)
            if turn == 2:
                threading.Event().wait(1.2)  # longer than a broker may be gone
                assert fetcher._connection is not None
                fetcher._connection.close()

    assert found == 300


def test_a_partition_without_a_leader_is_reported(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, many(3))
    options = read_options(broker.bootstrap, topic, **{"kafka.default.api.timeout.ms": "300"})
    (wanted,) = plan(options, Selection())
    broker.kill()

    with pytest.raises(SparkFailure, match=f"partition {topic}-0 cannot be read at offset 0: "):
        _read(wanted, options)


def test_a_corrupt_batch_is_reported(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, many(1))
    broker.stop()
    (segment,) = (broker.data / f"{topic}-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-3] ^= 0xFF
    segment.write_bytes(content)
    broker.start()

    with pytest.raises(SparkFailure) as told:
        read_all(read_options(broker.bootstrap, topic))

    assert str(told.value) == (
        f"the batch at offset 0 of {topic}-0 cannot be read: its CRC is wrong"
    )


def test_records_of_aborted_transactions_are_left_out() -> None:
    def wrote(offset: int, producer: int) -> bytearray:
        return build_batch(
            [Record(offset, 0, None, b"v")],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=producer > 0,
        )

    def ended(offset: int, producer: int, how: ControlType) -> bytearray:
        marker = build_marker(EndTransactionMarker(how, 0), 0, producer, 0)
        marker[:8] = offset.to_bytes(8, "big")
        return marker

    log = [
        wrote(0, 1),
        wrote(1, 2),
        wrote(2, -1),
        ended(3, 1, ControlType.ABORT),
        ended(4, 2, ControlType.COMMIT),
        wrote(5, 1),
        ended(6, 1, ControlType.COMMIT),
    ]
    batches = [(read_header(batch), memoryview(batch)) for batch in log]

    seen = committed(batches, [(1, 0)])

    assert [header.base_offset for header, _ in seen] == [1, 2, 5]
