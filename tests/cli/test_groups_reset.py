"""The decision on new offsets, and the parsers of its options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.groups.groups_reset import (
    Change,
    LogOffsets,
    Scenario,
    Where,
    decide_changes,
    format_plan_file,
    parse_duration_ms,
    parse_plan_file,
    parse_topics,
)

ORDERS = TopicPartition("orders", 0)
LOGS = LogOffsets({ORDERS: 10}, {ORDERS: 100}, {ORDERS: 40})


def decided(
    where: Where, value: int = 0, before: int | None = 50, logs: LogOffsets = LOGS
) -> Change:
    committed = {} if before is None else {ORDERS: before}
    (change,) = decide_changes(Scenario(where, value), [ORDERS], committed, logs)
    return change


@pytest.mark.parametrize(
    ("where", "value", "before", "after"),
    [
        (Where.EARLIEST, 0, 50, 10),
        (Where.LATEST, 0, None, 100),
        (Where.CURRENT, 0, 50, 50),
        (Where.DATETIME, 12345, 50, 40),
        (Where.DURATION, 12345, None, 40),
        (Where.SHIFT, -30, 50, 20),
        (Where.OFFSET, 100, 50, 100),
        (Where.OFFSET, 10, 50, 10),
    ],
)
def test_each_scenario_sets_its_offset(
    where: Where, value: int, before: int | None, after: int
) -> None:
    change = decided(where, value, before)
    assert change == Change(ORDERS, before, after, None)
    assert change.difference == (None if before is None else after - before)


@pytest.mark.parametrize(
    ("where", "value", "before", "after", "note"),
    [
        (Where.OFFSET, 101, 50, 100, "101 is after the log end"),
        (Where.OFFSET, 9, 50, 10, "9 is before the log start"),
        (Where.SHIFT, -60, 50, 10, "-10 is before the log start"),
        (Where.CURRENT, 0, None, 100, "no committed offset: log end"),
    ],
)
def test_a_clamped_offset_has_a_note(
    where: Where, value: int, before: int | None, after: int, note: str
) -> None:
    assert decided(where, value, before) == Change(ORDERS, before, after, note)


def test_a_time_after_the_last_record_is_the_end() -> None:
    change = decided(Where.DATETIME, 1, logs=LOGS._replace(since={}))
    assert change == Change(ORDERS, 50, 100, "no later record: log end")


def test_the_current_offset_is_kept_even_if_the_log_no_longer_has_it() -> None:
    assert decided(Where.CURRENT, before=3).after == 3


def test_a_shift_needs_a_committed_offset() -> None:
    with pytest.raises(CommandFailed, match="orders-0 has no committed offset"):
        decided(Where.SHIFT, 1, before=None)


def test_a_partition_without_a_leader_is_reported() -> None:
    with pytest.raises(CommandFailed, match="the offsets of orders-0 are unknown"):
        decided(Where.LATEST, logs=LogOffsets({}, {}))


@given(st.integers(-200, 200), st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_a_shift_never_leaves_the_log(shift: int, before: int, earliest: int, size: int) -> None:
    logs = LogOffsets({ORDERS: earliest}, {ORDERS: earliest + size})
    change = decided(Where.SHIFT, shift, before, logs)
    assert earliest <= change.after <= earliest + size
    assert (change.note is None) == (change.after == before + shift)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("pt0.5s", 500),
        ("PT0S", 0),
    ],
)
def test_a_duration_is_days_hours_minutes_and_seconds(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1h", "P1M", "P1Y", "-PT1H", "P999999999D "]
)
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(Misused, match="--by-duration"):
        parse_duration_ms(text)


def test_a_topic_is_given_with_partitions_or_as_a_whole() -> None:
    assert parse_topics(["a", "b:0,2", "b:3", "c:1", "c"]) == {"a": [], "b": [0, 2, 3], "c": []}


@pytest.mark.parametrize("text", ["", ":0", "a:", "a:x", "a:0-2", "a:-1", "a:0,,1"])
def test_an_invalid_topic_is_rejected(text: str) -> None:
    with pytest.raises(Misused, match="--topic"):
        parse_topics([text])


names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
offsets = st.integers(0, 2**59)
plans = st.dictionaries(
    names,
    st.dictionaries(st.builds(TopicPartition, names, st.integers(0, 9)), offsets, min_size=1),
    min_size=1,
)


@given(plans)
def test_an_exported_plan_is_read_back(plan: dict[str, dict[TopicPartition, int]]) -> None:
    text = format_plan_file(
        {g: [Change(p, None, offset) for p, offset in each.items()] for g, each in plan.items()}
    )
    assert parse_plan_file(text, list(plan), "f") == plan


def test_a_plan_file_quotes_group_ids() -> None:
    changes = [Change(ORDERS, None, 7)]
    text = format_plan_file({'a, "b"': changes, "c": changes})
    assert text == '"a, ""b""",orders,0,7\nc,orders,0,7\n'
    assert parse_plan_file(text, ['a, "b"'], "f")['a, "b"'] == {ORDERS: 7}


@pytest.mark.parametrize(
    ("text", "groups", "message"),
    [
        ("orders,0,1\norders,x,1\n", ["g"], "f, line 2: expected topic,partition,offset or group"),
        ("orders,0,-1\n", ["g"], "f, line 1: expected"),
        ("orders,0\n", ["g"], "f, line 1: expected"),
        ("orders,0,1\n", ["g", "h"], "f, line 1: expected group,topic,partition,offset"),
        ("h,orders,0,1\n", ["g"], "f has no offsets for group g"),
        ("", ["g"], "f has no offsets for group g"),
    ],
)
def test_an_invalid_line_of_a_plan_file_is_reported(
    text: str, groups: list[str], message: str
) -> None:
    with pytest.raises(CommandFailed, match=message):
        parse_plan_file(text, groups, "f")
