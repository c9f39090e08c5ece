"""What the controller does for leaders of partitions: elections, and ISRs that were changed."""

import logging
from collections.abc import Iterable

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Led
from barnabas.controller.controller_description import strayed
from barnabas.controller.controller_epoch import Reign
from barnabas.controller.decide import broker_liveness, leader_balancing, requested_elections
from barnabas.controller.decide.isr_requests import decide_isrs
from barnabas.controller.decide.steps import MovePartitions, Refusal, Selector, TellMetadata
from barnabas.controller.events import (
    AlterPartition,
    BalanceDue,
    ElectLeaders,
    IsrNotified,
    PreferredElectionNode,
    UncleanAllowed,
)
from barnabas.controller.handle.on_reassignments import go_on
from barnabas.controller.states import PartitionState
from barnabas.znodes.paths import PREFERRED_REPLICA_ELECTION

log = logging.getLogger("barnabas.controller")


# -- elections -----------------------------------------------------------------


async def on_elect_leaders(
    reign: Reign, event: ElectLeaders
) -> dict[TopicPartition, Refusal | None]:
    """Elect; answers for each partition why it has no new leader, or None if it has."""
    return await _elect(reign, event.partitions, event.by)


async def _elect(
    reign: Reign, partitions: Iterable[TopicPartition] | None, by: Selector
) -> dict[TopicPartition, Refusal | None]:
    asked = list(reign.context.partitions() if partitions is None else partitions)
    await reign.performer.read_again(each for each in asked if each in reign.context)
    decided = requested_elections.decide_elections(reign.context, partitions and asked, by)
    performed = await reign.perform(decided.steps)
    log.info("elections asked for by=%s elected=%d", by.name, len(performed.led))
    return {**dict.fromkeys(performed.led), **decided.answers, **performed.refused}


async def on_preferred_election_node(reign: Reign, event: PreferredElectionNode) -> None:
    await elect_preferred_by_node(reign)


async def elect_preferred_by_node(reign: Reign) -> None:
    """Do what /admin/preferred_replica_election asks for, if it is there, and take it away."""
    partitions = await reign.watching.preferred_election()
    if partitions is not None:
        await _elect(reign, partitions, Selector.PREFERRED)
        await reign.store.delete([PREFERRED_REPLICA_ELECTION])


async def on_balance_due(reign: Reign, event: BalanceDue) -> None:
    """Send leaders home from brokers that are out of balance, unless that is switched off."""
    context, settings = reign.context, reign.settings()
    if not settings.auto_leader_rebalance:
        return
    await reign.performer.read_again(strayed(context))
    balance = leader_balancing.decide_balance(context, settings.imbalance_percentage)
    performed = await reign.perform(balance.steps)
    if performed.led:
        log.info("leaders sent home partitions=%d", len(performed.led))


async def on_unclean_allowed(reign: Reign, event: UncleanAllowed) -> None:
    """Elect for partitions without a leader, now that any replica may be chosen."""
    waiting = tuple(
        each
        for each in broker_liveness.leaderless(reign.context)
        if event.topic is None or each.topic == event.topic
    )
    await reign.perform((MovePartitions(waiting, PartitionState.ONLINE, Selector.OFFLINE),))


# -- ISRs ----------------------------------------------------------------------


async def on_isr_notified(reign: Reign, event: IsrNotified) -> None:
    """Leaders wrote new ISRs: learn them, and tell every broker."""
    notes, named = await reign.watching.isr_changes()
    known = await reign.performer.read_again(each for each in named if each in reign.context)
    if known:
        await reign.perform((TellMetadata(None, tuple(known)),))
        await go_on(reign, known)
    await reign.store.delete(notes)


async def on_alter_partition(
    reign: Reign, event: AlterPartition
) -> dict[TopicPartition, ErrorCode | Led]:
    """Write the ISRs that a leader asks for; answers for each a code, or what is so now.

    Raises  BrokerError: STALE_BROKER_EPOCH
    """
    known = reign.context.live.get(event.broker_id)
    if known is None or known.epoch != event.broker_epoch:
        raise BrokerError(ErrorCode.stale_broker_epoch)
    decided = decide_isrs(reign.context, event.broker_id, event.isrs)
    written = await reign.store.update_states(decided.updates)
    for partition, led in written.led.items():
        reign.context.apply_led(partition, led)
    await reign.performer.read_again(written.stale)
    await reign.perform((TellMetadata(None, tuple(event.isrs)),))
    await go_on(reign, written.led)
    missed = dict.fromkeys(decided.updates, ErrorCode.unknown_topic_or_partition)
    stale = dict.fromkeys(written.stale, ErrorCode.invalid_update_version)
    return {**missed, **stale, **decided.answers, **written.led}
