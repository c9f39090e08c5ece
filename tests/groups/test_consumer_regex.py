"""Regular expressions over topic names: RE2's syntax, whole names, linear time."""

import re
import string
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.groups.consumer.consumer_regex import TopicRegex

_pieces = st.recursive(
    st.sampled_from(
        ["a", "b", ".", "[ab]", "[^a]", "\\d", "\\w", "\\.", "[a-c1]", "", "[[:digit:]]"]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
        inner.map(lambda part: f"^{part}$"),
    ),
    max_leaves=8,
)


def matches(pattern: str, topic: str) -> bool:
    return TopicRegex(pattern).matches(topic)


@given(_pieces, st.text("abc1.-_", max_size=6))
def test_agrees_with_pythons_implementation(pattern: str, topic: str) -> None:
    posix_free = pattern.replace("[[:digit:]]", "[0-9]")
    assert matches(pattern, topic) == bool(re.fullmatch(posix_free, topic))


@given(st.text(string.printable, max_size=12))
def test_any_text_is_an_expression_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        matches(text, "topic")


def test_an_expression_that_would_backtrack_for_ages_matches_at_once() -> None:
    assert not matches("(a*)*(a+)+(a|a)*b", "a" * 249)
    assert not matches("(a?){200}(a*)*b", "a" * 249)


def test_names_are_matched_whole() -> None:
    assert matches("^orders-.*", "orders-eu")
    assert not matches("orders", "orders-eu")
    assert matches("(?i)ORDERS", "orders")
    assert matches("a|orders-eu", "orders-eu")
    assert not matches("orders|orders-", "orders-eu")
    assert matches("", "")
    assert not matches("a{3,5}", "aa")


@pytest.mark.parametrize(
    "wrong",
    [
        "(",
        ")",
        "[",
        "[b-a]",
        "*",
        "a{3,2}",
        "\\",
        "\\q",
        "(?=a)",
        "(?P<",
        "((a{900}){900})",
        "(" * 200,
    ],
)
def test_an_invalid_expression_is_a_value_error(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        TopicRegex(wrong)


def test_the_error_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"missing \): \(orders"):
        TopicRegex("(orders")


def test_the_library_is_not_loaded_before_the_first_expression() -> None:
    program = (
        "import sys\n"
        "import barnabas.groups.consumer.consumer_groups\n"
        "assert 're2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
