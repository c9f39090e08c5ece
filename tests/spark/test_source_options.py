"""The options of a read: their meaning, and one sentence for each invalid one."""

import pytest

from barnabas.spark.source.source_options import EARLIEST, LATEST, SourceOptions, TopicPartition
from barnabas.spark.user_errors import WrongOption

BOOTSTRAP = {"kafka.bootstrap.servers": "b1:9092, [::1]:9093,SSL://b3:9094"}
GIVEN = BOOTSTRAP | {"subscribe": "orders"}


def batch(**options: str) -> SourceOptions:
    return SourceOptions.of(GIVEN | options, streaming=False)


def stream(**options: str) -> SourceOptions:
    return SourceOptions.of(GIVEN | options, streaming=True)


def test_by_default_a_batch_reads_the_whole_topic_and_a_stream_starts_at_its_end() -> None:
    options = batch()

    assert options.bootstrap == (("b1", 9092), ("::1", 9093), ("b3", 9094))
    assert options.subscribe == ("orders",)
    assert options.starting.everywhere == EARLIEST
    assert options.ending.everywhere == LATEST
    assert stream().starting.everywhere == LATEST
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_trigger_delay_ms == 15 * 60_000


def test_option_names_are_case_insensitive() -> None:
    options = batch(STARTINGOFFSETS='{"orders":{"0":7,"1":-2}}', includeheaders="TRUE")

    assert options.include_headers
    assert options.starting.each == {
        TopicPartition("orders", 0): 7,
        TopicPartition("orders", 1): EARLIEST,
    }


def test_topics_are_named_by_a_list_a_pattern_or_partitions() -> None:
    named = SourceOptions.of(BOOTSTRAP | {"subscribe": "a, b,,a"}, streaming=False)
    pattern = SourceOptions.of(BOOTSTRAP | {"subscribePattern": "a.*"}, streaming=False)
    assigned = SourceOptions.of(BOOTSTRAP | {"assign": '{"a":[0,2],"b":[1]}'}, streaming=False)

    assert named.subscribe == ("a", "b")
    assert pattern.subscribe_pattern == "a.*"
    assert assigned.assign == (
        TopicPartition("a", 0),
        TopicPartition("a", 2),
        TopicPartition("b", 1),
    )


def test_one_timestamp_for_all_wins_over_timestamps_and_these_over_offsets() -> None:
    times = {"startingOffsetsByTimestamp": '{"orders":{"0":5}}'}

    assert batch(startingOffsets="earliest", **times).starting.each == {
        TopicPartition("orders", 0): 5
    }
    both = batch(startingTimestamp="9", **times).starting
    assert (both.everywhere, both.by_time) == (9, True)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("250", 250), ("500ms", 500), ("30s", 30_000), ("2m", 120_000), ("1d", 86_400_000)],
)
def test_a_delay_is_a_number_with_a_unit(text: str, ms: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_the_group_is_named_by_its_own_option_or_the_clients() -> None:
    assert stream(groupId="mine").group_id == "mine"
    assert stream(**{"kafka.group.id": "theirs"}).group_id == "theirs"
    assert stream().group_id is None


def test_options_that_the_kafka_source_ignores_are_ignored() -> None:
    options = batch(path="/x", groupIdPrefix="p", **{"kafka.max.poll.records": "5"})

    assert options.kafka["max.poll.records"] == "5"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"kafka.bootstrap.servers": " "},
            "kafka.bootstrap.servers is missing; set it to HOST:PORT",
        ),
        (
            {"kafka.bootstrap.servers": "b1"},
            "kafka.bootstrap.servers is 'b1' but must be HOST:PORT",
        ),
        ({"kafka.bootstrap.servers": "b1:99999"}, "must be HOST:PORT"),
        ({"subscribePattern": "a"}, "options subscribe, subscribePattern exclude each other"),
        ({"subscribe": " , "}, "option subscribe is ',' but must be topic names"),
        (
            {"startingOffsets": "first"},
            "startingOffsets is 'first' but must be earliest, latest or {",
        ),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "must be earliest, latest or {"),
        ({"startingOffsets": '{"orders":[1]}'}, "must be earliest, latest or {"),
        (
            {"startingOffsetsByTimestamp": "{}"},
            "startingOffsetsByTimestamp is '{}' but must be like",
        ),
        (
            {"startingTimestamp": "noon"},
            "startingTimestamp is 'noon' but must be a number of at least 0",
        ),
        ({"startingOffsetsByTimestampStrategy": "x"}, "must be error or latest"),
        ({"minPartitions": "0"}, "minPartitions is '0' but must be a number of at least 1"),
        (
            {"maxRecordsPerPartition": "many"},
            "maxRecordsPerPartition is 'many' but must be a number",
        ),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger is '-1' but must be a number"),
        ({"minOffsetsPerTrigger": "1.5"}, "minOffsetsPerTrigger is '1.5' but must be a number"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon' but must be a duration like"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe' but must be true or false"),
        ({"includeHeaders": "1"}, "includeHeaders is '1' but must be true or false"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is not supported: set"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer is not supported: values"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        (
            {"startingOffset": "earliest"},
            "unknown option startingoffset; did you mean startingOffsets?",
        ),
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger?"),
    ],
)
def test_an_invalid_option_is_reported_in_one_sentence(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(WrongOption) as failure:
        SourceOptions.of(GIVEN | options, streaming=True)

    assert sentence in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch read"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest in a batch read"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets cannot be earliest"),
        (
            {"startingOffsets": '{"o":{"0":5}}', "endingOffsets": '{"o":{"0":4}}'},
            "startingOffsets of o-0 is 5, which is after endingOffsets, 4",
        ),
        (
            {"startingOffsets": '{"o":{"0":5}}', "endingOffsets": '{"o":{"1":9,"0":9}}'},
            "must name the same partitions; only one of them names o-1",
        ),
    ],
)
def test_a_batch_has_a_beginning_and_an_end(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(WrongOption, match=sentence):
        batch(**options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(WrongOption, match=f"{name} is not supported in a streaming query"):
        stream(**{name: "latest"})


@pytest.mark.parametrize("text", ['{"a":[]}', '{"a":[-1]}', '{"a":"0"}', "[0]", "orders"])
def test_partitions_are_assigned_as_json(text: str) -> None:
    with pytest.raises(WrongOption, match="option assign is"):
        SourceOptions.of(BOOTSTRAP | {"assign": text}, streaming=False)


@pytest.mark.parametrize("text", ["", "("])
def test_a_pattern_is_a_regular_expression(text: str) -> None:
    with pytest.raises(WrongOption, match="option subscribePattern is"):
        SourceOptions.of(BOOTSTRAP | {"subscribePattern": text}, streaming=False)


def test_a_property_of_the_client_is_a_number_where_we_need_one() -> None:
    assert batch().property_number("request.timeout.ms", 5) == 5
    with pytest.raises(
        WrongOption, match=r"kafka\.request\.timeout\.ms is 'x' but must be a number"
    ):
        batch(**{"kafka.request.timeout.ms": "x"}).property_number("request.timeout.ms", 5)


def test_a_table_of_the_catalog_has_no_options_of_its_own() -> None:
    with pytest.raises(WrongOption, match=r"SELECT \.\.\. FROM table WITH"):
        SourceOptions.of({}, streaming=False)


def test_some_topics_must_be_named() -> None:
    with pytest.raises(WrongOption, match="one of subscribe, subscribePattern, assign"):
        SourceOptions.of(BOOTSTRAP, streaming=False)
