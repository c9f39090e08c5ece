"""Rebalances of groups and their reasons, seen as differences between two looks at the members.

Kafka's protocol does not report why a group rebalances. It reports members and what they own, so
a member that came, one that is gone, and partitions that moved are seen; whether a member left or
its session expired is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from barnabas.console.cluster.groups import ListedGroup, ListedMember, group_link
from barnabas.console.watch.group_lags import Members

_SHOWN_ID: Final = 8


def decide_rebalances(
    before: Mapping[str, ListedGroup],
    now: Mapping[str, ListedGroup],
    members_before: Members | None,
    members: Members | None,
) -> Iterator[tuple[str, str, str]]:
    """An event for each group that changed state or members, with the reason.

    Members are None if there are too many groups to look at each.
    """
    if members_before is None or members is None:
        members_before = members = {}
    for name, group in now.items():
        if name not in before:
            continue
        former = before[name].state
        states = [f"{former} → {group.state}"] if former != group.state else []
        reasons = list(_reasons(members_before.get(name, ()), members.get(name, ())))
        if states or reasons:
            what = "; ".join(states + (reasons or ["its members join again"]))
            yield "rebalance", f"group {name}: {what}", group_link(name)


def _reasons(before: Sequence[ListedMember], now: Sequence[ListedMember]) -> Iterator[str]:
    former = {_identity(each): each for each in before}
    present = {_identity(each): each for each in now}
    came = [_shown(each) for key, each in present.items() if key not in former]
    gone = [_shown(each) for key, each in former.items() if key not in present]
    again = [
        _shown(each)
        for key, each in present.items()
        if key in former and former[key].member_id != each.member_id
    ]
    if came:
        yield f"{', '.join(came)} joined"
    if gone:
        yield f"{', '.join(gone)} left, or its session expired"
    if again:
        yield f"{', '.join(again)} started again"
    if not (came or gone or again) and _owned(before) != _owned(now):
        yield "partitions moved between the same members"


def _identity(member: ListedMember) -> str:
    """A static member keeps its instance id when it starts again."""
    return member.instance_id or member.member_id


def _shown(member: ListedMember) -> str:
    name = member.instance_id or f"{member.client_id} …{member.member_id[-_SHOWN_ID:]}"
    return f"{name} at {member.host}"


def _owned(members: Sequence[ListedMember]) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """The partitions of each member, in an order that does not depend on the response's."""
    return {
        _identity(each): sorted((topic, tuple(sorted(n))) for topic, n in each.owns.items() if n)
        for each in members
    }
