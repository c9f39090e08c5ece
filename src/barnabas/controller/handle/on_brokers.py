"""Handlers of broker events: started, failed, modified, shutting down, log directory failed."""

import logging
from collections import Counter

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import PartitionReplica
from barnabas.controller.decide import broker_liveness, topic_deletions
from barnabas.controller.decide.steps import MoveReplicas, SendMetadata
from barnabas.controller.events import (
    BrokerModified,
    BrokersChanged,
    ControlledShutdown,
    LogDirNotified,
    ReplicasFailed,
)
from barnabas.controller.handle.active_controller import ActiveController
from barnabas.controller.handle.on_topics import resume_deletions
from barnabas.controller.states import REPLICA_FROM, ReplicaState, may_enter

log = logging.getLogger("barnabas.controller")

_UNKNOWN_EPOCH = -1
# Offline, or in the requested leader epoch already: a Kafka broker answers a repeated request so.
_NOT_REFUSED = (ErrorCode.kafka_storage_error, ErrorCode.stale_controller_epoch)


async def on_brokers_changed(active: ActiveController, event: BrokersChanged) -> None:
    """Handle failed brokers first, then started ones; a bounced broker is both."""
    context, live = active.context, await active.watches.brokers()
    changes = broker_liveness.decide_broker_changes(context, live)
    # Bounced brokers leave the ISRs first: they may have lost unflushed records, and the last
    # member of an ISR stays.
    down, up = (*changes.bounced, *changes.dead), (*changes.new, *changes.bounced)
    if down:
        log.info("brokers down brokers=%s bounced=%s", changes.dead, changes.bounced)
        context.apply_brokers({b: known for b, known in context.live.items() if b not in down})
        active.channels.set_brokers(context.live)
        await active.perform(broker_liveness.decide_brokers_down(context, down))
    if up:
        log.info("brokers up brokers=%s bounced=%s", changes.new, changes.bounced)
        context.apply_brokers(live)
        active.channels.set_brokers(live)
        await active.perform(broker_liveness.decide_brokers_up(context, up))
        await active.perform(topic_deletions.decide_eligible_after_up(context, up))
    await resume_deletions(active)


async def on_broker_modified(active: ActiveController, event: BrokerModified) -> None:
    """Send a broker's new endpoints to all; a start or failure is another event."""
    known = active.context.live.get(event.broker_id)
    now = await active.watches.broker(event.broker_id)
    if known is None or now is None or now.epoch != known.epoch or now == known:
        return
    log.info("broker changed its endpoints broker=%d", event.broker_id)
    active.context.apply_brokers({**active.context.live, event.broker_id: now})
    active.channels.set_brokers(active.context.live)
    await active.perform((SendMetadata(None, ()),))


async def on_controlled_shutdown(
    active: ActiveController, event: ControlledShutdown
) -> list[TopicPartition]:
    """Elect other leaders; return the partitions with other replicas that the broker still leads.

    Raises  BrokerError: STALE_BROKER_EPOCH, or BROKER_NOT_AVAILABLE for a dead broker
    """
    known = active.context.live.get(event.broker_id)
    if known is None:
        raise BrokerError(ErrorCode.broker_not_available, f"broker {event.broker_id} is not alive")
    if event.broker_epoch != _UNKNOWN_EPOCH and event.broker_epoch < known.epoch:
        raise BrokerError(
            ErrorCode.stale_broker_epoch,
            f"broker {event.broker_id} is in epoch {known.epoch}, not {event.broker_epoch}",
        )
    log.info("broker shuts down broker=%d", event.broker_id)
    active.context.apply_shutting_down(event.broker_id)
    await active.perform(
        broker_liveness.decide_controlled_shutdown(active.context, event.broker_id)
    )
    return broker_liveness.remaining_leaders(active.context, event.broker_id)


async def on_log_dir_notified(active: ActiveController, event: LogDirNotified) -> None:
    """Send LeaderAndIsr for all replicas of the brokers; the response reports the failed ones."""
    notes, brokers = await active.watches.log_dir_events()
    if brokers:
        log.warning("log directories failed brokers=%s", brokers)
    asked = tuple(
        each
        for each in active.context.replicas_on(brokers)
        if may_enter(REPLICA_FROM, active.context.replica_state_of(each), ReplicaState.ONLINE)
    )
    await active.perform((MoveReplicas(asked, ReplicaState.ONLINE),))
    await active.store.delete(notes)


async def on_replicas_failed(active: ActiveController, event: ReplicasFailed) -> None:
    """Take replicas in a failed log directory offline, until their broker restarts."""
    context, broker = active.context, event.broker_id
    failed = [
        partition
        for partition, code in event.codes.items()
        if code is ErrorCode.kafka_storage_error
        and partition in context
        and partition not in context.offline_replicas.get(broker, ())
    ]
    _log_failures(event, len(failed))
    if not failed or broker not in context.live:
        return
    context.apply_offline_replicas(broker, failed)
    replicas = [PartitionReplica(each, broker) for each in failed]
    await active.perform(broker_liveness.decide_replicas_offline(context, replicas))


def _log_failures(event: ReplicasFailed, newly_offline: int) -> None:
    """One line for all replicas that failed now; the others are as they were before."""
    for partition, code in event.codes.items():
        log.debug(
            "replica answered broker=%d partition=%s error=%s",
            event.broker_id,
            partition,
            code.name,
        )
    refused = Counter(code.name for code in event.codes.values() if code not in _NOT_REFUSED)
    if newly_offline or refused:
        log.warning(
            "replicas failed broker=%d newly_offline=%d refused=%s",
            event.broker_id,
            newly_offline,
            ",".join(f"{name}:{count}" for name, count in sorted(refused.items())) or "none",
        )
