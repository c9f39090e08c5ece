"""Parsing of start and stop positions, partitions and timestamps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.io.start_positions import (
    Positions,
    StartKind,
    StartPosition,
    parse_partitions,
    parse_positions,
    start_offset,
)
from barnabas.cli.options import parse_time
from barnabas.cli.show import show_time

NOON = 1769860800000


@pytest.mark.parametrize(
    ("texts", "positions"),
    [
        ([], Positions(StartPosition(StartKind.BEGINNING))),
        (["beginning"], Positions(StartPosition(StartKind.BEGINNING))),
        (["earliest"], Positions(StartPosition(StartKind.BEGINNING))),
        (["latest"], Positions(StartPosition(StartKind.END))),
        (["end"], Positions(StartPosition(StartKind.END))),
        (["42"], Positions(StartPosition(StartKind.OFFSET, 42))),
        (["-10"], Positions(StartPosition(StartKind.FROM_END, 10))),
        ([f"s@{NOON}"], Positions(StartPosition(StartKind.SINCE, NOON))),
        (["s@2026-01-31T12:00:00Z"], Positions(StartPosition(StartKind.SINCE, NOON))),
        (["s@2026-01-31T12:00:00"], Positions(StartPosition(StartKind.SINCE, NOON))),
        (["s@2026-01-31T13:00:00+01:00"], Positions(StartPosition(StartKind.SINCE, NOON))),
        (["5", f"e@{NOON}"], Positions(StartPosition(StartKind.OFFSET, 5), NOON)),
    ],
)
def test_positions_are_written_as_for_kcat(texts: list[str], positions: Positions) -> None:
    assert parse_positions(texts) == positions


@pytest.mark.parametrize(
    "texts",
    [
        ["middle"],
        ["stored"],
        ["s@"],
        ["s@noon"],
        ["s@2021"],
        ["e@999999999"],
        ["1", "2"],
        ["--1"],
        ["1.5"],
        [""],
    ],
)
def test_an_invalid_position_is_rejected(texts: list[str]) -> None:
    with pytest.raises(Misused, match="-o"):
        parse_positions(texts)


@given(earliest=st.integers(0, 50), length=st.integers(0, 50), back=st.integers(0, 200))
def test_a_start_counted_from_the_end_stays_in_the_log(
    earliest: int, length: int, back: int
) -> None:
    latest = earliest + length
    start = start_offset(StartPosition(StartKind.FROM_END, back), "t", earliest, latest, None)
    assert earliest <= start <= latest
    assert start in (latest - back, earliest)


@pytest.mark.parametrize("offset", [9, 21])
def test_an_offset_out_of_range_is_rejected_with_the_range(offset: int) -> None:
    with pytest.raises(CommandFailed, match=r"has offsets 10 to 20"):
        start_offset(StartPosition(StartKind.OFFSET, offset), "t [0]", 10, 20, None)


def test_a_time_later_than_all_records_is_the_end() -> None:
    assert start_offset(StartPosition(StartKind.SINCE, 5), "t", 10, 20, None) == 20
    assert start_offset(StartPosition(StartKind.SINCE, 5), "t", 10, 20, 13) == 13


def test_partitions_are_lists_and_ranges() -> None:
    assert parse_partitions(["0,2", "4-6"]) == [0, 2, 4, 5, 6]
    for text in ("x", "1-", "-1", "1,,2", ""):
        with pytest.raises(Misused, match="expected partitions"):
            parse_partitions([text])


@given(st.integers(0, 4102444800000))
def test_times_are_read_as_they_are_shown(timestamp_ms: int) -> None:
    assert parse_time(show_time(timestamp_ms), "-t ") == timestamp_ms
    assert parse_time(str(timestamp_ms), "-t ") == timestamp_ms
