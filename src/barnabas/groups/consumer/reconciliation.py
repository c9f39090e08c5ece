"""The reconciliation of a member with its target: it revokes partitions, then gets new ones.

A partition is assigned only when nobody owns it. A member that has to revoke one owns it until its
heartbeat no longer lists it, or until it is fenced.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.laws import law
from barnabas.groups.assignors.assignors import NOTHING, Assignment
from barnabas.groups.consumer.consumer_member import ConsumerMember, MemberState

Owners = Mapping[UUID, Mapping[int, str]]


class Target(NamedTuple):
    """The target assignment of a member, and its epoch."""

    epoch: int
    assignment: Assignment


def reconcile(
    member: ConsumerMember,
    target: Target,
    owners: Owners,
    owned: Assignment | None,
    formerly: str | None = None,
) -> ConsumerMember:
    """The member one step nearer to its target, or unchanged if it has to wait.

    `owned` are the partitions that it claims to own, None if it does not say. `formerly` is the id
    of the static member that it replaces, and whose partitions are its own.

    Keeps   GRP-10  a partition is owned by one member at a time
            GRP-11  a member's epoch never passes the one of its target
    Raises  BrokerError, if a newer broker left it in a state that is unknown here
    """
    if member.is_reconciled_to(target.epoch):
        return member
    law(
        member.epoch <= target.epoch,
        "GRP-11 a member's epoch never passes the one of its target",
        member=member.member_id,
        epoch=member.epoch,
        target=target.epoch,
    )
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.revoking):
            return member
        epoch += 1
    elif member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise BrokerError(
                ErrorCode.fenced_member_epoch,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        epoch = target.epoch
    selves = (member.member_id, formerly)
    return _step(member, epoch, target, _Difference.between(member, target, owners, selves), owned)


class _Difference(NamedTuple):
    kept: dict[UUID, frozenset[int]]
    surplus: dict[UUID, frozenset[int]]
    available: dict[UUID, frozenset[int]]
    is_short: bool  # not all that it lacks is available

    @classmethod
    def between(
        cls,
        member: ConsumerMember,
        target: Target,
        owners: Owners,
        selves: tuple[str, str | None],
    ) -> "_Difference":
        found = cls({}, {}, {}, is_short=False)
        is_short = False
        for topic in dict.fromkeys((*target.assignment, *member.assigned)):
            wanted = target.assignment.get(topic, NOTHING)
            has = member.assigned.get(topic, NOTHING)
            missing = wanted - has
            if missing:
                of_topic = owners.get(topic, {})
                free = frozenset(p for p in missing if of_topic.get(p, selves[0]) in selves)
                is_short |= len(free) < len(missing)
                if free:
                    found.available[topic] = free
            if has & wanted:
                found.kept[topic] = has & wanted
            if has - wanted:
                found.surplus[topic] = has - wanted
        return found._replace(is_short=is_short)


def _step(
    member: ConsumerMember,
    epoch: int,
    target: Target,
    difference: _Difference,
    owned: Assignment | None,
) -> ConsumerMember:
    if difference.surplus and _owns_any(owned, difference.surplus):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=difference.kept,
            revoking=difference.surplus,
        )
    assigned = {
        topic: difference.kept.get(topic, NOTHING) | difference.available.get(topic, NOTHING)
        for topic in (*difference.kept, *difference.available)
    }
    is_short = difference.is_short
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if is_short else MemberState.STABLE,
        epoch=target.epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking={},
    )


def _owns_any(owned: Assignment | None, partitions: Assignment) -> bool:
    """True if it may own one of these: it says so, or does not say."""
    if owned is None:
        return True
    return any(owned.get(topic, NOTHING) & of_topic for topic, of_topic in partitions.items())


def law_of_one_owner(
    group_id: str, member: ConsumerMember, owners: Owners, formerly: str | None
) -> None:
    """Check, before the append, the partitions that the member would own."""
    selves = (member.member_id, formerly)
    for topic, partitions in member.assigned.items():
        of_topic = owners.get(topic, {})
        for partition in partitions:
            owner = of_topic.get(partition)
            law(
                owner is None or owner in selves,
                "GRP-10 a partition is owned by one member at a time",
                group=group_id,
                topic=topic,
                partition=partition,
                owner=owner,
                member=member.member_id,
            )
