"""The table of group states is whole, and what it does not allow does not happen."""

import pytest

from barnabas.base.errors import LawBroken
from barnabas.coordinator.result import Waiter
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_member import Member, chosen_protocol
from barnabas.groups.classic.classic_messages import OfferedProtocol
from barnabas.groups.classic.classic_state import NEXT, GroupEvent, GroupState
from barnabas.groups.classic.classic_subscription import subscribed_topics
from tests.groups.driver import subscription


def member(member_id: str, *protocols: str) -> Member:
    offered = tuple(OfferedProtocol(name, b"") for name in protocols)
    return Member(member_id, None, "client", "/127.0.0.1", 60_000, 10_000, offered)


def test_every_state_has_a_row_and_can_be_reached_from_empty() -> None:
    assert set(NEXT) == set(GroupState)
    reached, new = set[GroupState](), {GroupState.EMPTY}
    while new:
        reached |= new
        new = {to for state in new for to in NEXT[state].values()} - reached
    assert reached == set(GroupState)


def test_every_event_leads_somewhere() -> None:
    assert {event for row in NEXT.values() for event in row} == set(GroupEvent)


@pytest.mark.parametrize("state", list(GroupState))
def test_an_event_that_the_table_lacks_breaks_a_law(state: GroupState) -> None:
    for event in GroupEvent:
        group = ClassicGroup("g", state)
        if event in NEXT[state]:
            group.enter(event, 1)
            assert group.state is NEXT[state][event]
        else:
            with pytest.raises(LawBroken, match="GRP-1"):
                group.enter(event, 1)
            assert group.state is state


def test_a_generation_that_was_passed_cannot_begin_again() -> None:
    group = ClassicGroup("g", generation_id=7)
    with pytest.raises(LawBroken, match="GRP-2"):
        group.begin_generation(6, None)
    assert group.generation_id == 7


def test_a_member_that_waits_cannot_be_forgotten() -> None:
    group = ClassicGroup("g")
    group.put(member("m", "range"))
    group.joining["m"] = Waiter(1)
    with pytest.raises(LawBroken, match="GRP-3"):
        group.remove("m")
    assert "m" in group.members


def test_the_protocol_most_members_prefer_among_those_all_support_is_chosen() -> None:
    members = [
        member("a", "sticky", "range", "roundrobin"),
        member("b", "roundrobin", "range"),
        member("c", "range", "roundrobin"),
    ]
    assert chosen_protocol(members) == "range"
    assert chosen_protocol(members[1:2]) == "roundrobin"


def test_the_topics_of_a_subscription_are_read_from_any_version() -> None:
    assert subscribed_topics(subscription("orders", "größe")) == ["orders", "größe"]
    assert subscribed_topics(b"\0\x03" + subscription("a")[2:] + b"more") == ["a"]


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\0\5ab"]
)
def test_metadata_that_is_no_subscription_is_refused(metadata: bytes) -> None:
    with pytest.raises(ValueError, match=r"ends early|topic"):
        subscribed_topics(metadata)
