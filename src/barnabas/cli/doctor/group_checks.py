"""Check of consumer groups: those that do not leave their rebalance, and why."""

from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.cli.doctor.finding import Finding, first_of, problem
from barnabas.cli.show import counted

_TIMEOUT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.5
_WHY: Final = {
    "PREPARING_REBALANCING": (
        "waits for members to join again",
        "a member that works longer than max.poll.interval.ms between polls holds up all others:"
        " see the logs of these clients, lower max.poll.records or stop the one that hangs",
    ),
    "COMPLETING_REBALANCING": (
        "waits for the assignment of its leader, the first member",
        "see the log of that client, and whether the members' versions and assignors match",
    ),
}


def check_groups(client: AdminClient, patience_s: float) -> Iterator[Finding]:
    """Groups that are in a rebalance now and for all of `patience_s`; returns at once if none is.

    Raises  KafkaException
    """
    listed: Any = client.list_consumer_groups(request_timeout=_TIMEOUT_S).result()
    moving = _moving(client, [each.group_id for each in listed.valid])
    for _ in range(round(patience_s / _LOOK_EVERY_S)):
        if not moving:
            return
        client.poll(_LOOK_EVERY_S)
        now = _moving(client, list(moving))
        moving = {name: now[name] for name in moving if name in now}
    for name, group in sorted(moving.items()):
        what, todo = _WHY[group.state.name]
        clients = [f"{each.client_id} at {each.host}" for each in group.members]
        yield problem(
            "groups",
            f"group {name} with {counted(len(clients), 'member')} is in rebalance for over"
            f" {patience_s:.0f} s and {what}: {first_of(clients)}",
            todo,
        )


def _moving(client: AdminClient, names: list[str]) -> dict[str, Any]:
    if not names:
        return {}
    described = client.describe_consumer_groups(names, request_timeout=_TIMEOUT_S)
    found = {}
    for name, future in described.items():
        try:
            group: Any = future.result()
        except KafkaException:  # deleted meanwhile, or its coordinator is being elected
            continue
        if isinstance(group.state, ConsumerGroupState) and group.state.name in _WHY:
            found[name] = group
    return found
