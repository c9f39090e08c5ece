"""Properties files: parsed as Java does, and round trips."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ConfigError
from barnabas.config.properties import format_properties, parse_properties, read_properties


@pytest.mark.parametrize(
    "line",
    ["Truth = Beauty", "  Truth:Beauty", "Truth\t\t\t:Beauty", "Truth Beauty", "Truth=Beauty"],
)
def test_each_separator_ends_the_key(line: str) -> None:
    assert parse_properties(line) == {"Truth": "Beauty"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# no\n! no\n\n   # no\na=1", {"a": "1"}),
        ("cheeses", {"cheeses": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a = b = c: d ", {"a": "b = c: d "}),
        (
            "fruits  apple, banana, \\\n    pear, \\\n    kiwi",
            {"fruits": "apple, banana, pear, kiwi"},
        ),
        ("a=1\\\n#not a comment", {"a": "1#not a comment"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\\\n# a comment after nothing\na=1", {"a": "1"}),
        ("a\\ b\\:c\\==d", {"a b:c=": "d"}),
        ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=x\u2028y", {"a": "x\u2028y"}),
        ("", {}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@given(st.dictionaries(st.text(), st.text()))
def test_formatted_properties_round_trip(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@given(st.dictionaries(st.text(), st.text()))
def test_formatted_properties_are_plain_ascii_with_a_line_for_each_key(
    properties: dict[str, str],
) -> None:
    text = format_properties(properties, "written by a test\nin two lines")
    assert text.isascii()
    assert text.count("\n") == len(properties) + 2
    assert parse_properties(text) == properties


@given(st.text(alphabet="ab=: \\\n\r\t#!tnq0"))
def test_any_text_without_a_unicode_escape_is_read(text: str) -> None:
    parsed = parse_properties(text)
    assert parse_properties(format_properties(parsed)) == parsed


def test_a_malformed_line_is_named_by_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# fine\nbroker.id=1\nlog.dirs=/a\\\n/b\\u12x4\n")
    with pytest.raises(ConfigError, match=r"server\.properties, line 3: malformed \\u12x4"):
        read_properties(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.properties: No such file"):
        read_properties(tmp_path / "absent.properties")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"a=\xff\xfe")
    with pytest.raises(ConfigError, match=r"server\.properties: not UTF-8 text \(byte 2\)"):
        read_properties(path)
