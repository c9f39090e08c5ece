"""The source of a streaming query against a broker, without Spark: start and end of batches."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from barnabas.spark.source.query import Query
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import DataLoss, SparkFailure, WrongOption
from tests.spark.conftest import Fill, create_topic, make_again, produce
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

ALL = ReadAllAvailable()
Open = Callable[..., Query]


@pytest.fixture
def open_query(served: BrokerProcess, topic: str) -> Iterator[Open]:
    """A query over the test's topic, from its beginning: `open_query(stopwatch, option=...)`."""
    queries: list[Query] = []

    def make(stopwatch: Callable[[], int] | None = None, **options: str) -> Query:
        given = {"kafka.bootstrap.servers": served.bootstrap, "startingOffsets": "earliest"}
        if "subscribePattern" not in options:
            given["subscribe"] = topic
        parsed = SourceOptions.of(given | options, streaming=True)
        queries.append(Query(parsed, stopwatch) if stopwatch else Query(parsed))
        return queries[-1]

    yield make
    for query in queries:
        query.close()


def offsets(positions: dict[str, Any], topic: str) -> dict[int, int]:
    kept = positions[topic]["partitions"]
    return {int(number): position["offset"] for number, position in kept.items()}


def some(number: int, partition: int = 0) -> list[dict[str, Any]]:
    return [{"value": b"v", "partition": partition} for _ in range(number)]


def test_a_query_begins_where_the_options_say(fill: Fill, open_query: Open, topic: str) -> None:
    fill([*some(5), *some(3, 1)], partitions=2)

    assert offsets(open_query().initial(), topic) == {0: 0, 1: 0}
    assert offsets(open_query(startingOffsets="latest").initial(), topic) == {0: 5, 1: 3}
    given = open_query(startingOffsets=f'{{"{topic}":{{"0":2,"1":-1}}}}')
    assert offsets(given.initial(), topic) == {0: 2, 1: 3}


def test_a_query_begins_at_a_time(fill: Fill, open_query: Open, topic: str) -> None:
    fill([{"value": b"v", "timestamp": 1_900_000_000_000 + n} for n in range(5)], 1)

    assert offsets(open_query(startingTimestamp="1900000000003").initial(), topic) == {0: 3}
    times = f'{{"{topic}":{{"0":1900000000002}}}}'
    assert offsets(open_query(startingOffsetsByTimestamp=times).initial(), topic) == {0: 2}
    too_late = {"startingTimestamp": "1950000000000"}
    with pytest.raises(WrongOption, match=r"-0 has no record at or after 1950000000000"):
        open_query(**too_late).initial()
    latest = open_query(**too_late, startingOffsetsByTimestampStrategy="latest")
    assert offsets(latest.initial(), topic) == {0: 5}


def test_offsets_must_be_given_for_every_partition(
    fill: Fill, open_query: Open, topic: str
) -> None:
    fill(partitions=2)

    with pytest.raises(WrongOption, match=f"{topic}-1 is missing"):
        open_query(startingOffsets=f'{{"{topic}":{{"0":2}}}}').initial()
    given = f'{{"{topic}":{{"0":2,"1":0}},"other":{{"0":1}}}}'
    with pytest.raises(WrongOption, match="names other-0, which is not read"):
        open_query(startingOffsets=given).initial()


def test_a_batch_ends_at_the_limit_or_at_the_end_of_the_log(
    fill: Fill, open_query: Open, topic: str
) -> None:
    fill([*some(90), *some(10, 1)], partitions=2)
    query = open_query()
    start = query.initial()

    limited = query.latest(start, ReadMaxRows(10))

    assert offsets(limited, topic) == {0: 9, 1: 1}
    assert offsets(query.latest(limited, ALL), topic) == {0: 90, 1: 10}
    assert offsets(query.last_seen() or {}, topic) == {0: 90, 1: 10}


def test_a_batch_waits_for_min_offsets_but_not_longer_than_the_delay(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(3))
    now = [0]
    query = open_query(lambda: now[0], minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    limit = ReadMinRows(5)

    first = query.latest(query.initial(), limit)
    produce(served.bootstrap, topic, some(2))
    waiting = query.latest(first, limit)
    now[0] += 10 * 10**9
    late = query.latest(first, limit)

    assert offsets(first, topic) == {0: 3}, "the first batch does not wait"
    assert waiting == first
    assert offsets(late, topic) == {0: 5}
    produce(served.bootstrap, topic, some(5))
    assert offsets(query.latest(late, limit), topic) == {0: 10}


def test_available_now_ignores_records_produced_after_its_start(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(7))
    query = open_query(minOffsetsPerTrigger="1000")

    query.fix_end()
    produce(served.bootstrap, topic, some(5))

    end = query.latest(query.initial(), ReadMinRows(1000))
    assert offsets(end, topic) == {0: 7}
    assert query.latest(end, ReadMinRows(1000)) == end, "else the query would never end"


def test_an_unchanged_end_is_the_same_text(fill: Fill, open_query: Open) -> None:
    fill(some(4))
    query = open_query()

    end = query.latest(query.initial(), ALL)

    assert query.latest(end, ALL) == end
    assert query.ranges(end, end) == ([], None)


def test_new_partitions_are_read_from_their_beginning(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(4))
    ticks = count(0, 2 * 10**9)
    query = open_query(lambda: next(ticks))
    end = query.latest(query.initial(), ALL)

    client = admin.AdminClient({"bootstrap.servers": served.bootstrap})
    client.create_partitions([admin.NewPartitions(topic, 2)])[topic].result(30)
    produce(served.bootstrap, topic, some(3, 1))

    further = query.latest(end, ALL)
    assert offsets(further, topic) == {0: 4, 1: 3}
    ranges, _ = query.ranges(end, further)
    assert [(each.partition.partition, each.start, each.end) for each in ranges] == [(1, 0, 3)]


def test_new_topics_that_match_a_pattern_are_read(
    open_query: Open, served: BrokerProcess, topic: str
) -> None:
    ticks = count(0, 2 * 10**9)
    query = open_query(lambda: next(ticks), subscribePattern=f"{topic}-[ab]")
    start = query.initial()
    for letter in "abc":
        create_topic(served.bootstrap, f"{topic}-{letter}")
        produce(served.bootstrap, f"{topic}-{letter}", some(2))

    assert start == {}
    assert sorted(query.latest(start, ALL)) == [f"{topic}-a", f"{topic}-b"]


def test_several_tasks_share_a_partition(fill: Fill, open_query: Open) -> None:
    fill(some(100))
    query = open_query(minPartitions="4")
    start = query.initial()

    ranges, _ = query.ranges(start, query.latest(start, ALL))

    assert [(each.start, each.end) for each in ranges] == [(0, 25), (25, 50), (50, 75), (75, 100)]


def test_a_recreated_topic_is_an_error_or_read_from_its_beginning(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(5))
    first = open_query()
    end = first.latest(first.initial(), ALL)

    make_again(served.bootstrap, topic)
    produce(served.bootstrap, topic, some(9))

    with pytest.raises(DataLoss) as told:
        open_query().latest(end, ALL)
    assert f"topic {topic} was deleted and recreated" in str(told.value)
    assert end[topic]["id"] in str(told.value)
    goes_on = open_query(failOnDataLoss="false")
    assert offsets(goes_on.latest(end, ALL), topic) == {0: 9}
    ranges, _ = goes_on.ranges(end, goes_on.latest(end, ALL))
    assert [(each.start, each.end) for each in ranges] == [(0, 9)]


def test_a_truncated_log_is_an_error_or_read_from_the_truncation(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker()
    create_topic(broker.bootstrap, topic)
    for _ in range(6):
        produce(broker.bootstrap, topic, some(1))
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}

    def query(**more: str) -> Query:
        options = given | {"startingOffsets": "earliest"} | more
        return Query(SourceOptions.of(options, streaming=True))

    # For this one no time passes: who leads the topic it goes on to know from before.
    options = given | {"startingOffsets": "earliest"}
    before = Query(SourceOptions.of(options, streaming=True), lambda: 0)
    end = before.latest(before.initial(), ALL)
    broker.kill()
    _lose_batches(broker.data / f"{topic}-0", 2)
    broker.start()
    produce(broker.bootstrap, topic, some(5))

    after, goes_on = query(), query(failOnDataLoss="false")
    try:
        with pytest.raises(DataLoss) as told:
            after.latest(end, ALL)
        assert f"{topic}-0 was truncated: it was read up to offset 6" in str(told.value)
        assert "only offsets before 4 are left" in str(told.value)
        with pytest.raises(DataLoss, match="only offsets before 4 are left"):
            before.latest(end, ALL)
        ranges, _ = goes_on.ranges(end, goes_on.latest(end, ALL))
        assert [(each.start, each.end) for each in ranges] == [(4, 9)]
    finally:
        before.close()
        after.close()
        goes_on.close()


def _lose_batches(folder: Path, number: int) -> None:
    """Truncate the log by its last batches, as a crash before fsync does."""
    (segment,) = folder.glob("*.log")
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.truncate(size - size // 6 * number)


def test_a_new_partition_without_its_first_records_is_an_error_or_read_from_its_start(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(2))
    query, goes_on = open_query(), open_query(failOnDataLoss="false")
    end = query.latest(query.initial(), ALL)
    client = admin.AdminClient({"bootstrap.servers": served.bootstrap})
    client.create_partitions([admin.NewPartitions(topic, 2)])[topic].result(60)
    produce(served.bootstrap, topic, some(5, 1))
    for future in client.delete_records([Partition(topic, 1, 3)]).values():
        future.result(60)

    with pytest.raises(DataLoss, match=rf"{topic}-1 is new since .* before offset 3 were deleted"):
        open_query().latest(end, ALL)
    ranges, _ = goes_on.ranges(end, goes_on.latest(end, ALL))
    assert [(each.start, each.end) for each in ranges] == [(3, 5)]


def test_no_pattern_matches_the_topics_of_queries_and_mirrors(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(2))
    create_topic(served.bootstrap, f"__spark-sink-{topic}")
    consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": f"{topic}-group"})
    consumer.commit(offsets=[Partition(topic, 0, 1)], asynchronous=False)
    names = list(consumer.list_topics(timeout=30).topics)
    consumer.close()

    assert {"__consumer_offsets", f"__spark-sink-{topic}"} < set(names)
    pattern = f"__consumer_offsets|.*{topic}"
    assert list(open_query(subscribePattern=pattern).initial()) == [topic]


def test_a_checkpoint_of_another_topic_is_refused(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(1))
    create_topic(served.bootstrap, f"{topic}-other")
    query = open_query()
    end = query.latest(query.initial(), ALL)

    with pytest.raises(SparkFailure) as told:
        open_query(subscribe=f"{topic}-other").latest(end, ALL)

    assert str(told.value) == (
        f"the checkpoint is for topic {topic} but the query reads {topic}-other; give the"
        " query its own checkpointLocation, or make it read that topic"
    )


def test_a_query_resumes_from_a_checkpoint_of_the_kafka_source(
    fill: Fill, open_query: Open, topic: str
) -> None:
    fill(some(5))
    query = open_query()

    end = query.latest({topic: {"0": 3}}, ALL)

    ranges, _ = query.ranges({topic: {"0": 3}}, end)
    assert [(each.start, each.end) for each in ranges] == [(3, 5)]
    assert end[topic]["id"]


def test_a_missing_topic_is_reported(open_query: Open, topic: str) -> None:
    with pytest.raises(SparkFailure, match=f"topic {topic} does not exist; create it with"):
        open_query().initial()


def test_unreachable_brokers_are_reported(open_query: Open) -> None:
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "200"}

    with pytest.raises(SparkFailure) as told:
        open_query(**nobody).initial()

    assert str(told.value) == (
        "the cluster at 127.0.0.1:1 cannot be read: no broker answers (127.0.0.1:1: Connection"
        " refused); start its brokers, or name others in kafka.bootstrap.servers"
    )


def test_progress_is_committed_to_the_group(
    fill: Fill, open_query: Open, served: BrokerProcess, topic: str
) -> None:
    fill(some(5))
    query = open_query(groupId=f"{topic}-group")
    end = query.latest(query.initial(), ALL)

    assert _committed(served, topic) == 0
    query.latest(end, ALL)
    assert _committed(served, topic) == 5


def _committed(served: BrokerProcess, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": f"{topic}-group"})
    try:
        (found,) = consumer.committed([Partition(topic, 0)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()
