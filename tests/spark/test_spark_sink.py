"""Batch and stream writes with a real Spark session, and the errors of invalid ones."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from barnabas.spark.sink.spark_sink import send, stream_writer, writer
from barnabas.spark.user_errors import SparkFailure, WrongOption
from tests.spark.conftest import Fill, create_topic, produce, started
from tests.spark.written import SCHEMA, by_partition, rows, sink, topics_of, values
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

Read = Callable[..., DataFrame]
Write = Callable[..., None]

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9"}
STREAMED_WITHIN_S = 500


@pytest.fixture
def write(served: BrokerProcess, topic: str) -> Write:
    """A batch write to the test's topic, with more options: `write(df, exactlyOnce="true")`."""

    def save(frame: DataFrame, **options: str) -> None:
        given = {"kafka.bootstrap.servers": served.bootstrap, "topic": topic, **options}
        frame.write.format("barnabas").mode("append").options(**given).save()

    return save


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("cast(id as string) key", "cast(2 * id as string) value")


# -- batch -------------------------------------------------------------------


def test_every_row_becomes_a_record(spark: SparkSession, read: Read, write: Write) -> None:
    write(numbers(spark, 1000))

    written = read().selectExpr("cast(key as string)", "cast(value as string)").collect()
    assert sorted(written) == sorted((str(n), str(2 * n)) for n in range(1000))


def test_every_field_of_a_record_is_written_and_read_back(
    spark: SparkSession, served: BrokerProcess, read: Read, topic: str
) -> None:
    """Topic, partition, time and headers by column; null is null; other columns are left alone."""
    create_topic(served.bootstrap, topic, 3)
    frame = spark.sql(
        f"""select * from values
          ('{topic}', 2, 'k', 'v', timestamp'2024-02-29 12:00:00.123456',
           array(named_struct('key', 'h', 'value', cast('x' as binary)),
                 named_struct('key', 'none', 'value', cast(null as binary))), 1L),
          ('{topic}', 1, '', cast(null as string), timestamp'1969-12-31 23:59:59.5', null, 2L),
          ('{topic}', 0, null, '', null, array(), 3L)
        as t(topic, partition, key, value, timestamp, headers, offset)"""
    )
    frame.write.format("barnabas").mode("append").options(
        **{"kafka.bootstrap.servers": served.bootstrap}
    ).save()

    third, second, first = read(includeHeaders="true").orderBy("partition").collect()

    assert (first.partition, bytes(first.key), bytes(first.value)) == (2, b"k", b"v")
    assert first.timestamp == datetime.datetime(2024, 2, 29, 12, 0, 0, 123_000)
    assert [(each.key, each.value) for each in first.headers] == [("h", b"x"), ("none", None)]
    assert (second.partition, bytes(second.key), second.value) == (1, b"", None)
    assert second.timestamp == datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)
    assert (third.partition, third.key, bytes(third.value), third.headers) == (0, None, b"", None)
    assert third.timestamp.year >= 2024


def test_keys_go_where_other_clients_put_them(served: BrokerProcess, topic: str) -> None:
    keys = [f"key-{number}" for number in range(200)]
    create_topic(served.bootstrap, topic, 5)
    send(*sink(served.bootstrap, topic), rows(keys))
    ours = by_partition(served.bootstrap, topic)

    create_topic(served.bootstrap, f"{topic}-theirs", 5)
    records = [{"key": key, "value": key} for key in keys]
    produce(served.bootstrap, f"{topic}-theirs", records, partitioner="murmur2_random")

    assert ours == by_partition(served.bootstrap, f"{topic}-theirs")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_by_others(
    served: BrokerProcess, topic: str, codec: str
) -> None:
    listed = [f"row {number}" for number in range(100)]
    options = {"kafka.compression.type": codec, "kafka.acks": "1"}
    send(*sink(served.bootstrap, topic, **options), rows(listed))

    assert sorted(values(served.bootstrap, topic)) == sorted(listed)


def test_an_exactly_once_batch_write_is_complete_and_leaves_nothing_else(
    spark: SparkSession, served: BrokerProcess, write: Write, topic: str
) -> None:
    before = set(topics_of(served.bootstrap))  # of queries of other tests there may be topics

    write(numbers(spark, 500), exactlyOnce="true")

    assert sorted(values(served.bootstrap, topic)) == sorted(str(2 * n) for n in range(500))
    until(
        lambda: set(topics_of(served.bootstrap)) - before == {topic},
        "what was written aside to be deleted",
    )


def test_a_batch_write_exactly_once_that_fails_leaves_nothing(
    spark: SparkSession, served: BrokerProcess, write: Write, topic: str
) -> None:
    create_topic(served.bootstrap, topic)
    fails = spark.range(1000).selectExpr(
        "if(id = 990, raise_error('a row that cannot be made'), cast(id as string)) value"
    )

    with pytest.raises(PySparkException, match="a row that cannot be made"):
        write(fails, exactlyOnce="true")

    assert values(served.bootstrap, topic) == []


# -- streams -----------------------------------------------------------------


def copy_stream(
    spark: SparkSession, served: BrokerProcess, source: str, folder: Path, **options: str
) -> None:
    """Write all that is in the source to `<source>-copy`, in micro-batches of 100 or so."""
    servers = {"kafka.bootstrap.servers": served.bootstrap}
    read = spark.readStream.format("barnabas").options(
        **servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100"
    )
    written = {**servers, "topic": f"{source}-copy", "checkpointLocation": str(folder), **options}
    ended(read.load().writeStream.format("barnabas").options(**written))


def ended(writer: DataStreamWriter) -> None:
    """Run a query up to the current end."""

    def go() -> None:
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(STREAMED_WITHIN_S)

    started(go)


def forget_last_commit(folder: Path) -> None:
    """As if the driver had been killed between the sink's commit and Spark's own note of it."""
    last = max(int(each.name) for each in (folder / "commits").iterdir() if each.name.isdecimal())
    (folder / "commits" / str(last)).unlink()
    (folder / "commits" / f".{last}.crc").unlink(missing_ok=True)


def test_an_exactly_once_stream_resumes_after_a_commit_that_spark_did_not_record(
    spark: SparkSession, served: BrokerProcess, topic: str, fill: Fill, tmp_path: Path
) -> None:
    fill(({"value": f"{number}", "key": f"{number}"} for number in range(150)), partitions=2)
    create_topic(served.bootstrap, f"{topic}-copy", 2)
    copy_stream(spark, served, topic, tmp_path, exactlyOnce="true")
    forget_last_commit(tmp_path)
    produce(served.bootstrap, topic, ({"value": f"{number}"} for number in range(150, 200)))
    copy_stream(spark, served, topic, tmp_path, exactlyOnce="true")

    copied = values(served.bootstrap, f"{topic}-copy")
    assert sorted(copied, key=int) == [str(number) for number in range(200)]


@pytest.mark.long
def test_an_at_least_once_stream_writes_an_unrecorded_batch_again(
    spark: SparkSession, served: BrokerProcess, topic: str, fill: Fill, tmp_path: Path
) -> None:
    fill({"value": f"{number}"} for number in range(50))
    copy_stream(spark, served, topic, tmp_path)
    forget_last_commit(tmp_path)
    copy_stream(spark, served, topic, tmp_path)

    assert len(values(served.bootstrap, f"{topic}-copy")) == 100


def test_in_complete_mode_every_result_is_appended(
    spark: SparkSession, served: BrokerProcess, topic: str, fill: Fill, tmp_path: Path
) -> None:
    fill({"value": "a" if number % 2 else "b"} for number in range(10))
    servers = {"kafka.bootstrap.servers": served.bootstrap}
    read = spark.readStream.format("barnabas").options(
        **servers, subscribe=topic, startingOffsets="earliest"
    )
    counted = read.load().groupBy("value").count()
    ended(
        counted.selectExpr("value key", "cast(count as string) value")
        .writeStream.format("barnabas")
        .options(**servers, topic=f"{topic}-counts", checkpointLocation=str(tmp_path))
        .outputMode("complete")
    )

    assert values(served.bootstrap, f"{topic}-counts") == ["5", "5"]


# -- what is refused ---------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "schema", "sentence"),
    [
        ({"topic": "t"}, SCHEMA, "option kafka.bootstrap.servers is missing"),
        ({**BOOTSTRAP}, SCHEMA, "no topic to write to"),
        ({**BOOTSTRAP, "topic": "t"}, "key string", "the column value is missing"),
        ({**BOOTSTRAP, "topic": "t"}, "value int", "column value has type int but must be string"),
        ({**BOOTSTRAP}, "topic int, value string", "column topic has type int"),
        ({**BOOTSTRAP, "topic": "t"}, "partition bigint, value string", "must be int"),
        ({**BOOTSTRAP, "topic": "t"}, "headers string, value string", "column headers has type"),
        ({**BOOTSTRAP, "topic": "t", "exactlyOnce": "yes"}, SCHEMA, "exactlyOnce is 'yes'"),
        ({**BOOTSTRAP, "topic": "t", "kafka.acks": "2"}, SCHEMA, "kafka.acks is '2'"),
        ({**BOOTSTRAP, "topic": "t", "kafka.compression.type": "zip"}, SCHEMA, "one of none, gzip"),
        ({**BOOTSTRAP, "topic": "t", "kafka.batch.size": "x"}, SCHEMA, "kafka.batch.size is 'x'"),
        ({**BOOTSTRAP, "topic": "t", "kafka.key.serializer": "X"}, SCHEMA, "cast the columns"),
        ({"kafka.bootstrap.servers": "nowhere", "topic": "t"}, SCHEMA, "HOST:PORT"),
    ],
)
def test_invalid_options_are_reported_in_one_sentence(
    options: dict[str, str], schema: StructType | str, sentence: str
) -> None:
    given = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(given, StructType)
    for make in (writer, stream_writer):
        with pytest.raises(WrongOption, match=sentence):
            make(options, given, False)


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(WrongOption, match="cannot be overwritten"):
        writer({**BOOTSTRAP, "topic": "t"}, SCHEMA, True)


def test_a_row_without_topic_is_refused(served: BrokerProcess, spark: SparkSession) -> None:
    frame = spark.sql("select cast(null as string) topic, 'v' value")
    servers = {"kafka.bootstrap.servers": served.bootstrap}

    with pytest.raises(PySparkException, match="a row has no topic") as told:
        frame.write.format("barnabas").mode("append").options(**servers).save()

    assert "Traceback" not in str(told.value)


def test_a_partition_that_does_not_exist_is_refused(
    spark: SparkSession, served: BrokerProcess, write: Write, topic: str
) -> None:
    create_topic(served.bootstrap, topic, 2)

    with pytest.raises(PySparkException, match=f"topic {topic} does not have: 2, of 2"):
        write(spark.sql("select 2 partition, 'v' value"))


def test_brokers_that_do_not_answer_are_named(topic: str) -> None:
    timeout = {"kafka.default.api.timeout.ms": "300"}

    with pytest.raises(SparkFailure, match=r"127\.0\.0\.1:9.*no broker answers"):
        send(*sink("127.0.0.1:9", topic, **timeout), rows(["row"]))


def test_a_missing_topic_is_named_without_auto_creation(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    bootstrap = fresh_broker("auto.create.topics.enable=false").bootstrap
    timeout = {"kafka.default.api.timeout.ms": "300"}

    with pytest.raises(SparkFailure, match=f"there is no topic {topic}; make it with"):
        send(*sink(bootstrap, topic, **timeout), rows(["row"]))


def test_a_record_too_large_for_its_topic_is_reported(served: BrokerProcess, topic: str) -> None:
    create_topic(served.bootstrap, topic, max_message_bytes="1000")

    with pytest.raises(SparkFailure, match=r"larger than the topic's max\.message\.bytes"):
        send(*sink(served.bootstrap, topic), rows(["x" * 2_000]))
