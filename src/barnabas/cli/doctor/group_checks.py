"""Check of consumer groups: those that do not leave their rebalance, and why."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.cli.doctor.finding import Finding, first_of, problem
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.groups.groups_requests import consumer_details
from barnabas.cli.show import counted

_TIMEOUT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.5
_HANGING: Final = (
    "a member that works longer than max.poll.interval.ms between polls holds up all others:"
    " see the logs of these clients, lower max.poll.records or stop the one that hangs"
)
_WHY: Final = {
    "PREPARING_REBALANCING": ("waits for members to join again", _HANGING),
    "COMPLETING_REBALANCING": (
        "waits for the assignment of its leader, the first member",
        "see the log of that client, and whether the members' versions and assignors match",
    ),
    # Of the consumer protocol, for which librdkafka has no state.
    "Reconciling": ("waits for members to give up partitions", _HANGING),
}


class MovingGroup(NamedTuple):
    """A group in a rebalance: in which state, of how many members, and those that it waits for."""

    state: str
    size: int
    members: list[str]


def check_groups(client: AdminClient, bootstrap: str, patience_s: float) -> Iterator[Finding]:
    """Groups that are in a rebalance now and for all of `patience_s`; returns at once if none is.

    Raises  KafkaException
    """
    listed: Any = client.list_consumer_groups(request_timeout=_TIMEOUT_S).result()
    moving = _moving(client, bootstrap, [each.group_id for each in listed.valid])
    for _ in range(round(patience_s / _LOOK_EVERY_S)):
        if not moving:
            return
        client.poll(_LOOK_EVERY_S)
        now = _moving(client, bootstrap, list(moving))
        moving = {name: now[name] for name in moving if name in now}
    for name, group in sorted(moving.items()):
        what, todo = _WHY[group.state]
        yield problem(
            "groups",
            f"group {name} with {counted(group.size, 'member')} is in rebalance for over"
            f" {patience_s:.0f} s and {what}: {first_of(group.members)}",
            todo,
        )


def _moving(client: AdminClient, bootstrap: str, names: list[str]) -> dict[str, MovingGroup]:
    if not names:
        return {}
    described = client.describe_consumer_groups(names, request_timeout=_TIMEOUT_S)
    found, unknown = {}, []
    for name, future in described.items():
        try:
            group: Any = future.result()
        except KafkaException:  # deleted meanwhile, or its coordinator is being elected
            continue
        if group.state is ConsumerGroupState.UNKNOWN:
            unknown.append(name)
        elif group.state.name in _WHY:
            members = [f"{each.client_id} at {each.host}" for each in group.members]
            found[name] = MovingGroup(group.state.name, len(members), members)
    return found | _reconciling(bootstrap, unknown)


def _reconciling(bootstrap: str, names: list[str]) -> dict[str, MovingGroup]:
    """Groups of the consumer protocol, with the members that are behind the group's assignment."""
    try:
        details = consumer_details(bootstrap, names) if names else {}
    except CommandFailed:
        return {}
    return {
        name: MovingGroup(
            group.group_state,
            len(group.members),
            [
                f"{each.client_id} at {each.client_host}"
                for each in group.members
                if each.member_epoch < group.assignment_epoch
            ],
        )
        for name, group in details.items()
        if group.group_state in _WHY
    }
