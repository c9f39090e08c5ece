"""Config keys: parsing, rendering and error messages as in Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ConfigError
from barnabas.config.config_key import ConfigKey, ConfigType, UpdateMode, Value, did_you_mean
from barnabas.config.config_table import read_keys


def key(type_name: str, limit: str = "-") -> ConfigKey:
    return read_keys(f"a.key {type_name} null {limit} low\n    It is only for a test.")["a.key"]


def test_a_line_of_the_table_becomes_a_key() -> None:
    keys = read_keys("""
first int 5 >=1 high cluster-wide acts
    What it does,
    told in two lines.
second list "" - low internal
    Another.
""")
    assert list(keys) == ["first", "second"]
    first, second = keys.values()
    assert first.type is ConfigType.INT
    assert first.default == 5
    assert first.validator is not None
    assert first.validator.shown == "[1,...]"
    assert first.importance == "high"
    assert first.update is UpdateMode.CLUSTER_WIDE
    assert first.served
    assert not first.internal
    assert first.documentation == "What it does, told in two lines."
    assert second.default == ()
    assert second.update is UpdateMode.READ_ONLY
    assert second.internal
    assert not second.served


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("boolean", " TRUE ", True),
        ("boolean", "false", False),
        ("int", "+2147483647", 2147483647),
        ("int", "-2147483648", -2147483648),
        ("short", "32767", 32767),
        ("long", "9223372036854775807", 2**63 - 1),
        ("double", "1e3", 1000.0),
        ("string", "  a b ", "a b"),
        ("list", "a , b,,c", ("a", "b", "", "c")),
        ("list", " ", ()),
        ("class", "org.example.Thing", "org.example.Thing"),
        ("password", "secret", "secret"),
    ],
)
def test_text_is_parsed_as_in_kafka(type_name: str, text: str, value: Value) -> None:
    assert key(type_name).parse(text) == value


@pytest.mark.parametrize(
    ("type_name", "text", "why"),
    [
        ("boolean", "yes", "Expected value to be either true or false"),
        ("int", "2147483648", "Not a number of type INT"),
        ("int", "1_000", "Not a number of type INT"),
        ("int", "", "Not a number of type INT"),
        ("int", "-", "Not a number of type INT"),
        ("int", "٣", "Not a number of type INT"),
        ("short", "-32769", "Not a number of type SHORT"),
        ("long", "9" * 5000, "Not a number of type LONG"),
        ("double", "half", "Not a number of type DOUBLE"),
        ("double", "NaN", "Not a number of type DOUBLE"),
        ("double", "1_0.5", "Not a number of type DOUBLE"),
    ],
)
def test_text_of_another_type_is_refused_with_kafkas_message(
    type_name: str, text: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        key(type_name).parse(text)
    assert str(caught.value) == f"Invalid value {text} for configuration a.key: {why}"


@pytest.mark.parametrize(
    ("type_name", "limit", "good", "bad", "why"),
    [
        ("int", ">=1", "1", "0", "Value must be at least 1"),
        ("double", "0..1", "1.0", "1.5", "Value must be no more than 1"),
        ("int", "-131072..22", "-131072", "23", "Value must be no more than 22"),
        ("string", "a|b", "b", "c", "String must be one of: a, b"),
        ("list", "a|b", "a,b", "a,c", "String must be one of: a, b"),
        ("int", "gzip-level", "-1", "0", "Value must be between 1 and 9 or equal to -1"),
        ("string", "protocol-version", "3.9", "4.9", "Version 4.9 is not a valid version"),
        ("string", "protocol-version", "3.9.1", "x", "Version x is not a valid version"),
        (
            "string",
            "protocol-version",
            "2.8-IV1",
            "2.8-IV2",
            "Version 2.8-IV2 is not a valid version",
        ),
        ("string", "protocol-version", "0.10.1.1", "0.10", "Version 0.10 is not a valid version"),
        (
            "list",
            "throttled-replicas",
            "0:1,2:3",
            "0-1",
            "must be the literal '*' or a list of replicas in the following format:"
            " [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_a_value_beyond_its_limit_is_refused_with_kafkas_message(
    type_name: str, limit: str, good: str, bad: str, why: str
) -> None:
    limited = key(type_name, limit)
    limited.parse(good)
    with pytest.raises(ConfigError) as caught:
        limited.parse(bad)
    assert str(caught.value) == f"Invalid value {bad} for configuration a.key: {why}"


def test_a_password_is_never_shown() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value \[hidden\] for") as caught:
        key("password", "a|b").parse("very-secret")
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (True, "true"),
        (-1, "-1"),
        (("a", "b"), "a,b"),
        ((), ""),
        (None, None),
    ],
)
def test_a_value_is_rendered_as_java_prints_it(value: Value, text: str | None) -> None:
    assert key("string").render(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_rendered_double_round_trips(value: float) -> None:
    double = key("double")
    assert double.parse(str(double.render(value))) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_rendered_long_round_trips(value: int) -> None:
    long = key("long")
    assert long.parse(str(long.render(value))) == value


@given(st.text())
def test_any_text_is_a_long_in_range_or_refused(text: str) -> None:
    try:
        value = key("long").parse(text)
    except ConfigError:
        return
    assert isinstance(value, int)
    assert -(2**63) <= value < 2**63


def test_a_mistyped_name_gets_a_hint_with_a_similar_one() -> None:
    known = ["retention.ms", "segment.ms", "retention.bytes"]
    assert did_you_mean("retention.m", known) == " (did you mean retention.ms?)"
    assert did_you_mean("something.else", known) == ""
