"""The controller context: its state tables are complete, and it refuses illegal changes."""

import enum
from collections.abc import Mapping
from itertools import product

import pytest

from barnabas.base.errors import LawBroken
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.controller.context import Assignment, Context, PartitionLeadership, PartitionReplica
from barnabas.controller.states import (
    PARTITION_FROM,
    REPLICA_FROM,
    PartitionState,
    ReplicaState,
)
from barnabas.znodes.layout import LeaderAndIsr

PARTITION = TopicPartition("t", 0)
REPLICA = PartitionReplica(PARTITION, BrokerId(1))


def leadership(leader_epoch: int, version: int) -> PartitionLeadership:
    return PartitionLeadership(
        LeaderAndIsr(BrokerId(1), LeaderEpoch(leader_epoch), 1, (BrokerId(1),)), version
    )


@pytest.mark.parametrize(("now", "to"), list(product(PartitionState, PartitionState)))
def test_a_partition_moves_only_as_its_table_says(now: PartitionState, to: PartitionState) -> None:
    context = Context()
    context.apply_initial_states({PARTITION: now}, {})
    if now in PARTITION_FROM[to]:
        context.apply_partition_state(PARTITION, to)
        assert context.state_of(PARTITION) is to
    else:
        with pytest.raises(LawBroken, match="CTL-2"):
            context.apply_partition_state(PARTITION, to)
        assert context.state_of(PARTITION) is now


@pytest.mark.parametrize(("now", "to"), list(product(ReplicaState, ReplicaState)))
def test_a_replica_moves_only_as_its_table_says(now: ReplicaState, to: ReplicaState) -> None:
    context = Context()
    context.apply_initial_states({}, {REPLICA: now})
    if now in REPLICA_FROM[to]:
        context.apply_replica_state(REPLICA, to)
        assert context.replica_state_of(REPLICA) is to
    else:
        with pytest.raises(LawBroken, match="CTL-3"):
            context.apply_replica_state(REPLICA, to)
        assert context.replica_state_of(REPLICA) is now


@pytest.mark.parametrize("table", [PARTITION_FROM, REPLICA_FROM])
def test_every_state_has_a_row_and_can_be_reached(
    table: Mapping[enum.Enum, frozenset[enum.Enum]],
) -> None:
    states = set(type(next(iter(table))))
    assert set(table) == states
    reached = {state for state in states if state.name == "NON_EXISTENT"}
    while more := {to for to, sources in table.items() if sources & reached} - reached:
        reached |= more
    assert reached == states


@pytest.mark.parametrize("older", [leadership(4, 9), leadership(5, 6)])
def test_leader_epoch_and_version_of_a_partition_never_go_back(
    older: PartitionLeadership,
) -> None:
    context = Context()
    context.apply_leadership(PARTITION, leadership(5, 7))
    with pytest.raises(LawBroken, match="CTL-1"):
        context.apply_leadership(PARTITION, older)
    assert context.leadership[PARTITION] == leadership(5, 7)


def test_an_assignment_has_an_origin_and_a_target() -> None:
    one, two, three, four = map(BrokerId, (1, 2, 3, 4))
    moving = Assignment((three, four, one, two), adding=(three, four), removing=(one, two))
    assert moving.target == (three, four)
    assert moving.origin == (one, two)
    assert moving.is_reassigning
    assert not Assignment((one, two)).is_reassigning
