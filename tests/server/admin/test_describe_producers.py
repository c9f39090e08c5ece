"""DescribeProducers: who writes to a partition, and where it stands."""

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts


def describe(client: Client, topic: str, *partitions: int) -> list[Any]:
    asked = parts(name=topic, partition_indexes=partitions)
    (told,) = client.call(ApiKey.DESCRIBE_PRODUCERS, topics=(asked,)).topics
    assert told.name == topic
    return list(told.partitions)


def test_a_producer_is_described_by_its_last_batch(client: Client) -> None:
    client.create("t", partitions=2)
    client.produce("t", [b"a", b"b"], producer=(7, 3, 0), timestamp=1_000)
    client.produce("t", [b"c"], producer=(7, 3, 2), timestamp=2_000)
    client.produce("t", [b"d"], producer=(8, 0, 0), timestamp=3_000)
    client.produce("t", [b"e"], timestamp=4_000)
    first, second = describe(client, "t", 0, 1)
    assert (first.error_code, first.error_message, second.active_producers) == (0, None, ())
    assert [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in first.active_producers
    ] == [(7, 3, 2, 2_000, -1, -1), (8, 0, 0, 3_000, -1, -1)]


def test_a_partition_that_is_not_here_has_an_error(client: Client) -> None:
    client.create("u")
    codes = [
        each.error_code
        for topic, partition in (("u", 1), ("missing", 0), ("bad name", 0))
        for each in describe(client, topic, partition)
    ]
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes == [unknown, unknown, ErrorCode.invalid_topic_exception]
