"""The diagrams of docs/states.md, from the tables: `python -m barnabas.server.state_diagrams`."""

import enum
import sys
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeVar

from barnabas.controller.states import (
    PARTITION_FROM,
    REPLICA_FROM,
    PartitionState,
    ReplicaState,
)
from barnabas.groups.classic.classic_state import NEXT, GroupEvent, GroupState
from barnabas.groups.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from barnabas.groups.consumer.consumer_member import MemberState
from barnabas.groups.consumer.reconciliation import reconcile
from barnabas.server.network import authentication_state
from barnabas.server.network.authentication_state import AuthenticationEvent, AuthenticationState
from barnabas.transactions.transaction_state import ENTERED_FROM, TransactionState

State = TypeVar("State", PartitionState, ReplicaState, TransactionState)

_OPENING: Final = """\
# States

Each diagram is drawn from the table in the code that the broker itself obeys. A transition that is
not in the table is a bug of Barnabas, never of a client: a [law](laws.md) refuses it.

*Written by `python -m barnabas.server.state_diagrams`; a test keeps it current.*
"""


AnyState = TypeVar("AnyState", GroupState, AuthenticationState)
AnyEvent = TypeVar("AnyEvent", GroupEvent, AuthenticationEvent)


class Edge(NamedTuple):
    """One transition; `label` is empty where the table names no event."""

    source: str
    target: str
    label: str = ""


class Diagram(NamedTuple):
    """One state machine: its states are the members of `states`, beside which its table lies."""

    title: str
    words: str
    states: type[enum.Enum]
    start: str
    edges: tuple[Edge, ...]
    end: str | None = None


def diagrams() -> tuple[Diagram, ...]:
    return (
        Diagram(
            "Partitions, as the controller sees them",
            "NonExistent (never created, or deleted), New (it has replicas and no leader yet),"
            " Online (it has a\nleader), Offline (its leader is gone and none could be elected).",
            PartitionState,
            PartitionState.NON_EXISTENT.value,
            _entered_from(PARTITION_FROM),
        ),
        Diagram(
            "Replicas, as the controller sees them",
            "New while it is being created, Online, Offline while its broker or log directory is"
            " down. A topic\ndeletion takes its replicas through DeletionStarted to"
            " DeletionSuccessful, or to DeletionIneligible\nuntil the obstacle is gone.",
            ReplicaState,
            ReplicaState.NON_EXISTENT.value,
            _entered_from(REPLICA_FROM),
        ),
        Diagram(
            "Classic groups",
            "Empty without members, PreparingRebalance while members join, CompletingRebalance"
            " until the leader's\nassignment is in the log, Stable, and Dead once it is removed.",
            GroupState,
            GroupState.EMPTY.value,
            _led_by_events(NEXT),
            GroupState.DEAD.value,
        ),
        Diagram(
            "Transactions",
            "Empty without a transaction, Ongoing with its first partition. PrepareCommit and"
            " PrepareAbort have the\noutcome in the log; markers follow, then CompleteCommit or"
            " CompleteAbort. An id that nobody uses is\nDead. PrepareEpochFence is in no record: a"
            " fence leads to PrepareAbort at once.",
            TransactionState,
            TransactionState.EMPTY.value,
            _entered_from(ENTERED_FROM),
            TransactionState.DEAD.value,
        ),
        Diagram(
            "Authentication on a SASL listener",
            "The state says which frame the client may send next: Initial (ApiVersions or"
            " SaslHandshake),\nVersionsGiven (SaslHandshake), Tokens (SaslAuthenticate), BareTokens"
            " (tokens without a header, as Kafka\n0.9 sends them), Authenticated (any request),"
            " Expired (SaslHandshake), Failed (none: the connection closes).",
            AuthenticationState,
            AuthenticationState.INITIAL.value,
            _led_by_events(authentication_state.NEXT),
            AuthenticationState.FAILED.value,
        ),
    )


def states_page() -> str:
    drawn = "\n".join("\n".join(_section(diagram)) for diagram in diagrams())
    return f"{_OPENING}\n{drawn}\n{_consumer_groups()}"


def _section(diagram: Diagram) -> Iterator[str]:
    yield f"## {diagram.title}\n\n{diagram.words}\nTable: {_file(diagram.states)}.\n"
    yield "```mermaid\nstateDiagram-v2"
    yield f"    [*] --> {diagram.start}"
    for edge in diagram.edges:
        label = f": {edge.label}" if edge.label else ""
        yield f"    {edge.source} --> {edge.target}{label}"
    if diagram.end is not None:
        yield f"    {diagram.end} --> [*]"
    yield "```\n"


def _entered_from(table: Mapping[State, AbstractSet[State]]) -> tuple[Edge, ...]:
    """The edges of a table that says from which states each may be entered, in its order."""
    return tuple(
        Edge(source.value, target.value)
        for target in table
        for source in table
        if source in table[target]
    )


def _led_by_events(
    table: Mapping[AnyState, Mapping[AnyEvent, AnyState]],
) -> tuple[Edge, ...]:
    return tuple(
        Edge(state.value, target.value, event.value)
        for state, events in table.items()
        for event, target in events.items()
    )


def _consumer_groups() -> str:
    groups = ", ".join(f"`{state.value}`" for state in ConsumerGroupState)
    members = "\n".join(f"| `{state.name}` | {state.value} |" for state in MemberState)
    return f"""\
## Consumer groups and their members

A group of the consumer protocol (KIP-848) has no table: its state is computed from its epochs
({_file(ConsumerGroup)}). The states are {groups}.
A member's state is part of its record ({_file(MemberState)});
{_file(reconcile)} decides it from its assignment and its target.

| State of a member | In its record |
|---|---|
{members}
"""


def _file(named: type | Callable[..., object]) -> str:
    """The file that defines a class or a function, as documents name it."""
    return f"`{named.__module__.removeprefix('barnabas.').replace('.', '/')}.py`"


if __name__ == "__main__":
    sys.stdout.write(states_page())
