"""What the controller does when brokers come, go, change, stop or lose a log folder."""

import logging

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Replica
from barnabas.controller.controller_epoch import Reign
from barnabas.controller.decide import broker_liveness, topic_deletions
from barnabas.controller.decide.steps import MoveReplicas, TellMetadata
from barnabas.controller.events import (
    BrokerModified,
    BrokersChanged,
    ControlledShutdown,
    LogDirNotified,
    ReplicasAnswered,
)
from barnabas.controller.handle.on_topics import resume_deletions
from barnabas.controller.states import REPLICA_FROM, ReplicaState, may_enter

log = logging.getLogger("barnabas.controller")

_UNKNOWN_EPOCH = -1


async def on_brokers_changed(reign: Reign, event: BrokersChanged) -> None:
    """Those that are gone first, then those that came; a bounced broker is both."""
    context, live = reign.context, await reign.watching.brokers()
    changes = broker_liveness.decide_broker_changes(context, live)
    # The bounced first, as the last to go stays in sync: what they had not flushed may be gone.
    down, up = (*changes.bounced, *changes.dead), (*changes.new, *changes.bounced)
    if down:
        log.info("brokers down brokers=%s bounced=%s", changes.dead, changes.bounced)
        context.apply_brokers({b: known for b, known in context.live.items() if b not in down})
        reign.channels.set_brokers(context.live)
        await reign.perform(broker_liveness.decide_brokers_down(context, down))
    if up:
        log.info("brokers up brokers=%s bounced=%s", changes.new, changes.bounced)
        context.apply_brokers(live)
        reign.channels.set_brokers(live)
        await reign.perform(broker_liveness.decide_brokers_up(context, up))
        await reign.perform(topic_deletions.decide_eligible_after_up(context, up))
    await resume_deletions(reign)


async def on_broker_modified(reign: Reign, event: BrokerModified) -> None:
    """Others must hear where the broker is now; one that came or went is another event."""
    known = reign.context.live.get(event.broker_id)
    now = await reign.watching.broker(event.broker_id)
    if known is None or now is None or now.epoch != known.epoch or now == known:
        return
    log.info("broker changed its endpoints broker=%d", event.broker_id)
    reign.context.apply_brokers({**reign.context.live, event.broker_id: now})
    reign.channels.set_brokers(reign.context.live)
    await reign.perform((TellMetadata(None, ()),))


async def on_controlled_shutdown(reign: Reign, event: ControlledShutdown) -> list[TopicPartition]:
    """Move leaders away; returns what the broker still leads, though others could.

    Raises  BrokerError: STALE_BROKER_EPOCH, or BROKER_NOT_AVAILABLE for one that is not alive
    """
    known = reign.context.live.get(event.broker_id)
    if known is None:
        raise BrokerError(ErrorCode.broker_not_available, f"broker {event.broker_id} is not alive")
    if event.broker_epoch != _UNKNOWN_EPOCH and event.broker_epoch < known.epoch:
        raise BrokerError(
            ErrorCode.stale_broker_epoch,
            f"broker {event.broker_id} is in epoch {known.epoch}, not {event.broker_epoch}",
        )
    log.info("broker shuts down broker=%d", event.broker_id)
    reign.context.apply_shutting_down(event.broker_id)
    await reign.perform(broker_liveness.decide_controlled_shutdown(reign.context, event.broker_id))
    return broker_liveness.remaining_leaders(reign.context, event.broker_id)


async def on_log_dir_notified(reign: Reign, event: LogDirNotified) -> None:
    """Ask the brokers for all their replicas: those whose folder failed say so."""
    notes, brokers = await reign.watching.log_dir_events()
    if brokers:
        log.warning("log folders failed on brokers=%s", brokers)
    asked = tuple(
        each
        for each in reign.context.replicas_on(brokers)
        if may_enter(REPLICA_FROM, reign.context.replica_state_of(each), ReplicaState.ONLINE)
    )
    await reign.perform((MoveReplicas(asked, ReplicaState.ONLINE),))
    await reign.store.delete(notes)


async def on_replicas_answered(reign: Reign, event: ReplicasAnswered) -> None:
    """Replicas that have lost their folder are offline until their broker starts again."""
    context, broker = reign.context, event.broker_id
    for partition, code in event.codes.items():
        log.debug("replica failed broker=%d partition=%s error=%s", broker, partition, code.name)
    failed = [
        partition
        for partition, code in event.codes.items()
        if code is ErrorCode.kafka_storage_error
        and partition in context
        and partition not in context.offline_replicas.get(broker, ())
    ]
    log.warning(
        "replicas failed broker=%d count=%d newly_offline=%d",
        broker,
        len(event.codes),
        len(failed),
    )
    if not failed or broker not in context.live:
        return
    context.apply_offline_replicas(broker, failed)
    replicas = [Replica(each, broker) for each in failed]
    await reign.perform(broker_liveness.decide_replicas_offline(context, replicas))
