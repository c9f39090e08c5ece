"""Handlers of partition events: elections, leader balancing, ISR changes."""

import logging
from collections.abc import Iterable

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import PartitionLeadership
from barnabas.controller.decide import broker_liveness, leader_balancing, requested_elections
from barnabas.controller.decide.isr_requests import decide_isr_changes
from barnabas.controller.decide.leader_balancing import led_by_others
from barnabas.controller.decide.steps import (
    ApiError,
    MovePartitions,
    SendMetadata,
)
from barnabas.controller.events import (
    AlterPartition,
    BalanceDue,
    ElectLeaders,
    IsrNotified,
    PreferredElectionNode,
    UncleanAllowed,
)
from barnabas.controller.handle.active_controller import ActiveController
from barnabas.controller.handle.on_reassignments import advance_reassignments
from barnabas.controller.states import PartitionState, Selector
from barnabas.znodes.paths import PREFERRED_REPLICA_ELECTION

log = logging.getLogger("barnabas.controller")


# -- elections -----------------------------------------------------------------


async def on_elect_leaders(
    active: ActiveController, event: ElectLeaders
) -> dict[TopicPartition, ApiError | None]:
    """Elect leaders; return for each partition its error, or None if it has a new leader."""
    return await _elect(active, event.partitions, event.by)


async def _elect(
    active: ActiveController, partitions: Iterable[TopicPartition] | None, by: Selector
) -> dict[TopicPartition, ApiError | None]:
    asked = list(active.context.partitions() if partitions is None else partitions)
    await active.performer.refresh_states(each for each in asked if each in active.context)
    decided = requested_elections.decide_elections(active.context, partitions and asked, by)
    performed = await active.perform(decided.steps)
    log.info("elections requested by=%s elected=%d", by.name, len(performed.leadership))
    return {**dict.fromkeys(performed.leadership), **decided.answers, **performed.refused}


async def on_preferred_election_node(
    active: ActiveController, event: PreferredElectionNode
) -> None:
    await elect_preferred_by_node(active)


async def elect_preferred_by_node(active: ActiveController) -> None:
    """Perform the elections of /admin/preferred_replica_election, if it exists; delete it."""
    partitions = await active.watches.preferred_election()
    if partitions is not None:
        await _elect(active, partitions, Selector.PREFERRED)
        await active.store.delete([PREFERRED_REPLICA_ELECTION])


async def on_balance_due(active: ActiveController, event: BalanceDue) -> None:
    """Elect preferred leaders on imbalanced brokers, if auto.leader.rebalance.enable is set."""
    context, settings = active.context, active.settings()
    if not settings.auto_leader_rebalance:
        return
    await active.performer.refresh_states(led_by_others(context))
    balance = leader_balancing.decide_balance(context, settings.imbalance_percentage)
    performed = await active.perform(balance.steps)
    if performed.leadership:
        log.info("preferred leaders elected partitions=%d", len(performed.leadership))


async def on_unclean_allowed(active: ActiveController, event: UncleanAllowed) -> None:
    """Elect leaders of offline partitions, now that an unclean election is allowed."""
    waiting = tuple(
        each
        for each in broker_liveness.leaderless(active.context)
        if event.topic is None or each.topic == event.topic
    )
    await active.perform((MovePartitions(waiting, PartitionState.ONLINE, Selector.OFFLINE),))


# -- ISRs ----------------------------------------------------------------------


async def on_isr_notified(active: ActiveController, event: IsrNotified) -> None:
    """Read the ISRs that leaders wrote, and send them to every broker."""
    notes, named = await active.watches.isr_changes()
    known = await active.performer.refresh_states(each for each in named if each in active.context)
    if known:
        await active.perform((SendMetadata(None, tuple(known)),))
        await advance_reassignments(active, known)
    await active.store.delete(notes)


async def on_alter_partition(
    active: ActiveController, event: AlterPartition
) -> dict[TopicPartition, ErrorCode | PartitionLeadership]:
    """Write the ISRs that a leader requests; return an error code or the leadership of each.

    Raises  BrokerError: STALE_BROKER_EPOCH
    """
    known = active.context.live.get(event.broker_id)
    if known is None or known.epoch != event.broker_epoch:
        raise BrokerError(ErrorCode.stale_broker_epoch)
    decided = decide_isr_changes(active.context, event.broker_id, event.isrs)
    written = await active.store.update_states(decided.updates)
    for partition, leadership in written.leadership.items():
        active.context.apply_leadership(partition, leadership)
    await active.performer.refresh_states(written.stale)
    await active.perform((SendMetadata(None, tuple(event.isrs)),))
    await advance_reassignments(active, written.leadership)
    missed = dict.fromkeys(decided.updates, ErrorCode.unknown_topic_or_partition)
    stale = dict.fromkeys(written.stale, ErrorCode.invalid_update_version)
    return {**missed, **stale, **decided.answers, **written.leadership}
