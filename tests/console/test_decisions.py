"""The console's pure parts: filters, ACLs, gaps in lag, hex, relative links."""

from typing import Any

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.console.cluster.acls import ListedAcl, decide_access
from barnabas.console.cluster.groups import (
    LeftOut,
    ListedGroup,
    ListedMember,
    LogEnds,
    why_unknown,
)
from barnabas.console.messages.filter_language import WrongFilter, compile_filter
from barnabas.console.messages.message_view import hexdump, show_data
from barnabas.console.watch.cluster_watch import folded, folded_topics, observe_groups
from barnabas.console.watch.group_lags import (
    SAMPLE_EVERY_MS,
    Lag,
    LagRing,
    LagSample,
    LagSnapshot,
    decide_lag,
    with_gaps,
)
from barnabas.console.web.access import is_loopback
from barnabas.console.web.rendering import left_out, reading, relative_root, visible

MESSAGE: dict[str, Any] = {
    "partition": 1,
    "offset": 42,
    "timestamp": 1_700_000_000_000,
    "key": "customer-7",
    "value": '{"total": 120, "lines": [{"sku": "a-1"}], "name": "Ada"}',
    "headers": [["source", "web"], ["trace", "a"], ["trace", "b"]],
}


@pytest.mark.parametrize(
    ("kind", "text", "kept"),
    [
        ("expression", "value.total > 100 and partition == 1", True),
        ("expression", "value.total > 100 and not key == 'customer-7'", False),
        ("expression", 'matches(value.name, "^A") or offset < 3', True),
        ("expression", "value.lines[0].sku in ['a-1', 'a-2']", True),
        ("expression", "value.absent > 3", False),
        ("expression", "value.total % 7 == 1", True),
        ("path", "$.lines[0].sku = a-1", True),
        ("path", "$.lines[1].sku", False),
        ("header", "source=web", True),
        ("header", "TRACE=A", True),  # a name may be there twice
        ("header", "web\ntrace", False),
        ("expression", "headers.trace == 'b'", True),  # the last, as Kafka's lastHeader
        ("key", "CUSTOMER", True),
        ("value", "nowhere", False),
    ],
)
def test_a_filter_keeps_what_it_says(kind: str, text: str, kept: bool) -> None:
    assert compile_filter(kind, text)(MESSAGE) is kept


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "value.__class__.__mro__[1]()",
        "(lambda: 1)()",
        "[x for x in value]",
        "9 ** 9 ** 9",
        "open('/etc/passwd')",
        "value.total >",
        "not " * 150 + "value",
        "value" + ".a" * 200,
        "-" * 1_900 + "1",
        "value == '\0'",
    ],
)
def test_an_expression_has_only_what_the_language_has(text: str) -> None:
    with pytest.raises(WrongFilter):
        compile_filter("expression", text)


def test_attributes_of_objects_do_not_exist_for_an_expression() -> None:
    assert not compile_filter("expression", "key.__class__")(MESSAGE)
    assert not compile_filter("expression", "key * 1000000 == 'x'")(MESSAGE)


def acl(
    permission: str, operation: str, name: str = "orders", pattern: str = "literal"
) -> ListedAcl:
    return ListedAcl("Topic", name, pattern, "User:ada", permission, operation, "*")


def test_a_deny_wins_and_an_allow_may_imply() -> None:
    allowed = decide_access([acl("Allow", "Read")], "User:ada", "Describe", "Topic", "orders")
    assert allowed.is_allowed
    assert "implies" in allowed.why
    acls = [acl("Allow", "All"), acl("Deny", "Read", "ord", "prefixed")]
    denied = decide_access(acls, "User:ada", "Read", "Topic", "orders")
    assert (denied.is_allowed, denied.acls) == (False, [acls[1]])
    assert not decide_access([acl("Allow", "Read")], "User:bob", "Read", "Topic", "o").is_allowed


def test_a_time_when_nobody_looked_is_a_gap_in_the_lag() -> None:
    samples = [LagSample(0, 5), LagSample(SAMPLE_EVERY_MS, 6), LagSample(10 * SAMPLE_EVERY_MS, 7)]
    assert [each.lag for each in with_gaps(samples)] == [5, 6, None, 7]


def test_a_lag_names_the_partitions_that_it_leaves_out() -> None:
    def at(topic: str, number: int) -> TopicPartition:
        return TopicPartition(topic, number)

    group = ListedGroup("billing", "Stable", "classic", "consumer", 1)
    committed = {at("orders", 0): 5, at("orders", 1): 7, at("lost", 0): 1}
    leaders = {at("orders", 0): 2, at("orders", 1): -1}
    unknown = {each: why_unknown(each, leaders) for each in (at("orders", 1), at("lost", 0))}
    found = decide_lag(group, committed, LogEnds({at("orders", 0): 9}, unknown))
    assert found.total.messages == 4
    assert left_out(found.total.left_out) == (
        "without lost-0: not in the cluster; without orders-1: no leader"
    )
    assert found.by_topic["lost"].messages is None
    snapshot = LagSnapshot({"billing": found}, 0)
    assert [name for name, _ in snapshot.of_topic("lost")] == ["billing"]
    assert decide_lag(group, None, LogEnds({}, {})).why == "its coordinator does not answer"
    assert (found.members, found.position) == (None, 13)
    many = [LeftOut(at("orders", number), "no leader") for number in range(1200)]
    assert left_out(many) == (
        "without 1,200 partitions (orders-0, orders-1, orders-2, …): no leader"
    )


def test_a_lag_counts_what_members_own_and_names_where_nothing_is_committed() -> None:
    def at(number: int) -> TopicPartition:
        return TopicPartition("orders", number)

    owned = {"orders": (0, 1), "new": (0,)}
    members = [ListedMember("m", None, "till", "10.0.0.7", None, owned)]
    new = TopicPartition("new", 0)
    ends = LogEnds({at(0): 9, at(1): 5, new: 3}, {}, frozenset([new]))
    group = ListedGroup("billing", "Stable", "classic", "consumer", 1)
    found = decide_lag(group, {at(0): 5}, ends, members)
    assert found.total == Lag(4, (LeftOut(at(1), "nothing committed"),))
    assert found.by_topic["new"] == Lag(0)
    assert found.members == 1
    never = decide_lag(group, {}, ends, members)
    assert never.by_topic["orders"].messages is None
    snapshot = LagSnapshot({"billing": never}, 0)
    assert [name for name, _ in snapshot.of_topic("orders")] == ["billing"]


def test_a_name_cannot_turn_the_words_around_it() -> None:
    assert visible("group \u202eecilA is deleted") == r"group \u202eecilA is deleted"
    assert visible("naïve группа") == "naïve группа"


def test_a_ring_keeps_the_newest_samples_with_what_they_leave_out() -> None:
    ring = LagRing()
    for number in range(5):
        ring.append(LagSample(number, None if number == 3 else number, 10 * number, number % 2), 3)
    assert ring.last(9) == [
        LagSample(2, 2, 20, 0),
        LagSample(3, None, 30, 1),
        LagSample(4, 4, 40, 0),
    ]


def test_many_changes_of_a_topic_are_one_event() -> None:
    few = [("isr", f"ISR of orders-{number}", "topics/orders") for number in range(3)]
    assert list(folded("orders", few)) == few
    many = few * 4
    (event,) = folded("orders", many)
    assert event[1] == "the ISRs of 12 partitions of orders changed"


def test_changes_of_many_topics_are_one_event_of_each_kind() -> None:
    few = [("isr", f"ISR of t{number}-0", f"topics/t{number}") for number in range(6)]
    assert list(folded_topics(few)) == few
    moved = [("election", "t0-0 is led by broker 1 in epoch 2", "topics/t0")]
    many = [("isr", f"ISR of t{number}-0", f"topics/t{number}") for number in range(9)]
    assert list(folded_topics(moved + many)) == [
        *moved,
        ("isr", "ISRs changed in 9 topics", "topics?sort=health"),
    ]


def test_a_group_whose_coordinator_moves_is_not_gone() -> None:
    known = {"billing": 0}
    for _ in range(9):
        assert list(observe_groups(known, [])) == []
    assert list(observe_groups(known, ["billing"])) == []
    for _ in range(9):
        assert list(observe_groups(known, [])) == []
    assert list(observe_groups(known, [])) == [("group", "group billing is gone", "groups")]
    ((_, what, link),) = observe_groups(known, ["a & b"])
    assert (what, link) == ("group a & b appeared", "group?name=a+%26+b")


def test_values_are_shown_by_what_they_are() -> None:
    assert show_data(b'{"a":1}', "auto", None).kind == "JSON"
    assert show_data(b"plain", "auto", None) == ("text", "plain", 5, False)
    assert show_data(b"\xff\x00", "auto", None).kind == "hex"
    assert show_data(None, "auto", None).kind == "null"
    assert hexdump(b"AB").startswith("00000000  41 42 ")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7 days"),
        ("retention.ms", "-1", ""),
        ("segment.ms", "5400000", "90 minutes"),
        ("segment.ms", "1", ""),
        ("segment.bytes", "1073741824", "1.0 GiB"),
        ("flush.messages", "9223372036854775807", "no limit"),
        ("min.insync.replicas", "2", ""),
        ("cleanup.policy", "delete", ""),
    ],
)
def test_a_config_is_read_in_the_units_of_people(name: str, value: str, words: str) -> None:
    assert reading(name, value) == words


def test_links_are_relative_to_the_page() -> None:
    paths = ("/", "/topics", "/topics/orders", "/cluster/brokers/1")
    assert [relative_root(path) for path in paths] == ["./", "./", "../", "../../"]


def test_loopback_is_known_by_address_and_name() -> None:
    hosts = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "evil.example")
    assert [is_loopback(host) for host in hosts] == [True, True, True, False, False]
