"""Performs steps: details decided, the tree written, the context applied, the brokers told.

In this order, so that a step that fails has changed nothing that others rely on: what was not
written is not known, and what is not known is not told.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context, Led, Topic
from barnabas.controller.decide.state_transitions import (
    PartitionMoves,
    decide_leader_epochs,
    decide_partitions,
    decide_replicas,
)
from barnabas.controller.decide.step_parts import in_parts
from barnabas.controller.decide.steps import (
    AssumeAssignments,
    BeginDeletion,
    DropDeletion,
    DropReassignments,
    EndTopic,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    QueueDeletions,
    RaiseLeaderEpochs,
    Refusal,
    Selector,
    SetAssignments,
    Step,
    Steps,
    StopReplicas,
    TellMetadata,
    Then,
)
from barnabas.controller.decide.unclean_elections import unclean_topics, warn_of_unclean
from barnabas.controller.io.broker_channels import Channels
from barnabas.controller.io.request_batch import Message, RequestBatch
from barnabas.controller.io.store import Store, Written
from barnabas.controller.io.tree_watches import Watching, topic_assignment
from barnabas.controller.states import PartitionState, ReplicaState
from barnabas.znodes.layout import encode_reassignment
from barnabas.znodes.paths import REASSIGN_PARTITIONS, delete_topic_path
from barnabas.znodes.tree import NoNode

log = logging.getLogger("barnabas.controller")

_GONE: Final = Refusal(ErrorCode.unknown_topic_or_partition, "its znode is gone")


@dataclass(slots=True)
class Performed:
    """What came of steps: the `state` nodes that were written, and what could not be done."""

    led: dict[TopicPartition, Led] = field(default_factory=dict)
    refused: dict[TopicPartition, Refusal] = field(default_factory=dict)


class Performer:
    """Does what deciders ask for, one step after the other.

    Raises  Deposed or SessionExpired; what was written until then is known and told
    """

    def __init__(
        self,
        context: Context,
        store: Store,
        watching: Watching,
        channels: Channels,
        batch: RequestBatch,
        unclean_by_default: Callable[[], bool],
    ) -> None:
        self._context = context
        self._store = store
        self._watching = watching
        self._channels = channels
        self._batch = batch
        self._unclean_by_default = unclean_by_default
        self.unclean_elections = 0

    async def perform(self, steps: Steps) -> Performed:
        performed = Performed()
        await self._perform_all(steps, performed)
        if performed.refused:
            _log_refused(performed.refused)
        return performed

    async def _perform_all(self, steps: Steps, performed: Performed) -> None:
        for part in (part for step in steps for part in in_parts(step)):
            try:
                await self._perform(part, performed)
            finally:
                self._channels.send(self._batch.build())
            # The broker that this controller lives in has clients that wait for their turn.
            await asyncio.sleep(0)

    async def _perform(self, step: Step, performed: Performed) -> None:
        match step:
            case MovePartitions():
                await self._move_partitions(step, performed)
            case MoveReplicas():
                await self._move_replicas(step, performed)
            case RaiseLeaderEpochs():
                await self._raise_leader_epochs(step, performed)
            case SetAssignments():
                await self._set_assignments(step, performed)
            case AssumeAssignments(assignments):
                for partition, assignment in assignments.items():
                    self._context.apply_assignment(
                        partition.topic, {partition.partition: assignment}
                    )
            case TellMetadata(brokers, partitions):
                self._batch.add_update_metadata(brokers, partitions)
            case StopReplicas(replicas):
                for partition, broker in replicas:
                    self._batch.add_stop_replica((broker,), partition)
            case EndTopic(topic):
                await self._end_topic(topic)
            case DropDeletion(topics):
                await self._store.delete(delete_topic_path(topic) for topic in topics)
            case DropReassignments(partitions):
                await self._drop_reassignments(partitions)
            case QueueDeletions(topics):
                self._context.apply_deleting(topics)
            case BeginDeletion(topics):
                for topic in topics:
                    self._context.apply_deletion_begun(topic)
            case MarkIneligible(topics, why):
                self._context.apply_ineligible(topics, why)
            case MarkEligible(topics):
                self._context.apply_eligible(topics)
            case Then(decide):
                await self._perform_all(decide(self._context), performed)
            case _:
                assert_never(step)

    # -- partitions ----------------------------------------------------------

    async def _move_partitions(self, step: MovePartitions, performed: Performed) -> None:
        waiting = list(step.partitions)
        while waiting:
            unclean = await self._unclean_topics(step, waiting)
            moves = decide_partitions(
                self._context, waiting, step.to, step.by, unclean.__contains__
            )
            changed = await self._changed_meanwhile(moves.refused)
            for partition in changed:
                del moves.refused[partition]
            written = await self._write(moves, performed)
            for partition in (*moves.moved, *written.led):
                self._context.apply_partition_state(partition, step.to)
            if written.led:
                _log_elected(step, written)
            waiting = [*changed, *await self.read_again(written.stale)]

    async def _raise_leader_epochs(self, step: RaiseLeaderEpochs, performed: Performed) -> None:
        waiting = list(step.partitions)
        while waiting:
            moves = decide_leader_epochs(self._context, waiting, step.is_new_on)
            written = await self._write(moves, performed)
            waiting = await self.read_again(written.stale)

    async def _write(self, moves: PartitionMoves, performed: Performed) -> Written:
        """Write what was decided; know and tell what was written."""
        created = await self._store.create_states(moves.creates)
        updated = await self._store.update_states(moves.updates)
        written = Written(created.led | updated.led, created.stale + updated.stale)
        for partition in moves.unclean:
            if partition in written.led:
                before = self._context.led[partition]
                warn_of_unclean(partition, before, written.led[partition])
                self.unclean_elections += 1
        self._apply_led(written, performed)
        for partition in (*moves.moved, *written.led):
            self._tell(moves.messages.get(partition, ()))
        performed.refused.update(moves.refused)
        for partition in (*moves.creates, *moves.updates):
            if partition not in written.led and partition not in written.stale:
                performed.refused[partition] = _GONE
        return written

    async def _changed_meanwhile(self, refused: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those that were refused for what is no longer so: leaders write new ISRs themselves."""
        before = {each: self._context.led[each] for each in refused if each in self._context.led}
        await self.read_again(before)
        return [each for each, led in before.items() if self._context.led[each] != led]

    async def _unclean_topics(
        self, step: MovePartitions, partitions: Iterable[TopicPartition]
    ) -> dict[str, None]:
        if step.to is not PartitionState.ONLINE or step.by is not Selector.OFFLINE:
            return {}
        default = self._unclean_by_default()
        return await unclean_topics(self._context, self._store, partitions, default)

    # -- replicas ------------------------------------------------------------

    async def _move_replicas(self, step: MoveReplicas, performed: Performed) -> None:
        waiting = list(step.replicas)
        while waiting:
            moves = decide_replicas(self._context, waiting, step.to)
            if step.to is ReplicaState.OFFLINE:
                # Its leader may have let it in sync since: it must not be waited for.
                left = {each.topic_partition for each in moves.moved} - moves.updates.keys()
                if await self._changed_meanwhile(sorted(left)):
                    continue
            written = await self._store.update_states(moves.updates)
            self._apply_led(written, performed)
            unwritten = moves.updates.keys() - written.led.keys()
            for replica in moves.moved:
                if replica.topic_partition not in unwritten:
                    self._context.apply_replica_state(replica, step.to)
            for partition, messages in moves.messages.items():
                if partition not in unwritten:
                    self._tell(messages)
            performed.refused.update(
                (replica.topic_partition, refusal) for replica, refusal in moves.refused.items()
            )
            again = frozenset(await self.read_again(written.stale))
            waiting = [each for each in moves.moved if each.topic_partition in again]

    # -- topics --------------------------------------------------------------

    async def _set_assignments(self, step: SetAssignments, performed: Performed) -> None:
        topic = self._context.topics[step.topic]
        wanted = Topic(topic.topic_id, {**topic.partitions, **step.assignments}, topic.version)
        try:
            version = await self._store.write_topic(
                step.topic, topic_assignment(wanted), topic.version
            )
        except NoNode:
            gone = [TopicPartition(step.topic, index) for index in step.assignments]
            performed.refused.update(dict.fromkeys(gone, _GONE))
        else:
            self._context.apply_assignment(step.topic, step.assignments, version)

    async def _end_topic(self, topic: str) -> None:
        await self._store.delete_topic(topic)
        self._context.apply_topic_gone(topic)
        log.info("topic deleted topic=%s", topic)

    async def _drop_reassignments(self, partitions: Iterable[TopicPartition]) -> None:
        """Take these out of the node; what a tool has written since it was read stays."""
        while (asked := await self._watching.reassignment()) is not None:
            left = {each: to for each, to in asked.targets.items() if each not in partitions}
            if left == asked.targets and left:
                return
            data = encode_reassignment(left) if left else None
            if await self._store.replace(REASSIGN_PARTITIONS, data, asked.version):
                return

    # -- of all --------------------------------------------------------------

    async def read_again(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Learn what others wrote; returns those that still have a `state`."""
        states = await self._watching.states(partitions)
        self.learn(states)
        return list(states)

    def learn(self, states: Mapping[TopicPartition, Led]) -> None:
        """Know what was read. What is older than what is known is of a topic that was made anew
        under its name; the watch on the topic tells of that."""
        for partition, led in states.items():
            known = self._context.led.get(partition)
            if known is None or led.version >= known.version:
                self._context.apply_led(partition, led)

    def _apply_led(self, written: Written, performed: Performed) -> None:
        for partition, led in written.led.items():
            self._context.apply_led(partition, led)
        performed.led.update(written.led)

    def _tell(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._batch.add(message)


def _log_elected(step: MovePartitions, written: Written) -> None:
    log.info("leaders elected by=%s count=%d", step.by.name, len(written.led))
    for partition, led in written.led.items():
        log.debug("leader elected partition=%s state=%s", partition, led.state)


def _log_refused(refused: dict[TopicPartition, Refusal]) -> None:
    partition, refusal = next(iter(refused.items()))
    log.warning(
        "state changes refused count=%d first=%s code=%s why=%s",
        len(refused),
        partition,
        refusal.code.name,
        refusal.message,
    )
    for partition, refusal in refused.items():
        log.debug("state change refused partition=%s why=%s", partition, refusal.message)
