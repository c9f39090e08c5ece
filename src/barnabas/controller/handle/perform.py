"""The performer of steps: decide the details, write the tree, apply to the context, send.

The order matters: a failed step has changed nothing. The context contains only what was written,
and brokers receive only what the context contains.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import AssignedTopic, Context, PartitionLeadership
from barnabas.controller.decide.state_transitions import (
    PartitionMoves,
    decide_leader_epochs,
    decide_partitions,
    decide_replicas,
)
from barnabas.controller.decide.steps import (
    ApiError,
    AssumeAssignments,
    BeginDeletion,
    CancelDeletions,
    ControlMessage,
    DropReassignments,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    QueueDeletions,
    RaiseLeaderEpochs,
    RemoveTopic,
    SendMetadata,
    SetAssignments,
    Step,
    Steps,
    StopReplicas,
    Then,
    in_parts,
    whole_topics,
)
from barnabas.controller.handle.unclean_elections import unclean_topics, warn_of_unclean
from barnabas.controller.io.broker_channels import Channels
from barnabas.controller.io.request_batch import (
    RequestBatch,
)
from barnabas.controller.io.store import Store, WrittenStates
from barnabas.controller.io.tree_watches import TreeWatches, topic_assignment
from barnabas.controller.states import PartitionState, ReplicaState, Selector
from barnabas.znodes.layout import encode_reassignment
from barnabas.znodes.paths import REASSIGN_PARTITIONS, delete_topic_path
from barnabas.znodes.tree import NoNode

log = logging.getLogger("barnabas.controller")

_GONE: Final = ApiError(ErrorCode.unknown_topic_or_partition, "the znode no longer exists")


@dataclass(slots=True)
class Performed:
    """The result of steps: the `state` znodes that were written, and the errors."""

    leadership: dict[TopicPartition, PartitionLeadership] = field(default_factory=dict)
    refused: dict[TopicPartition, ApiError] = field(default_factory=dict)


class Performer:
    """Performs the steps of deciders, one after the other.

    Raises  ControllerMoved or SessionExpired; what was written until then is applied and sent
    """

    def __init__(
        self,
        context: Context,
        store: Store,
        watches: TreeWatches,
        channels: Channels,
        batch: RequestBatch,
        unclean_by_default: Callable[[], bool],
    ) -> None:
        self._context = context
        self._store = store
        self._watches = watches
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
            # This process also runs a broker: let its clients have their turn.
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
            case SendMetadata(brokers, partitions):
                if partitions is None:
                    await self._send_all_metadata(brokers)
                else:
                    self._batch.add_update_metadata(brokers, partitions)
            case StopReplicas(replicas):
                for partition, broker in replicas:
                    self._batch.add_stop_replica((broker,), partition)
            case RemoveTopic(topic):
                await self._end_topic(topic)
            case CancelDeletions(topics):
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
            for partition in (*moves.moved, *written.leadership):
                self._context.apply_partition_state(partition, step.to)
            _log_elected(step, moves, written)
            waiting = [*changed, *await self.refresh_states(written.stale)]

    async def _raise_leader_epochs(self, step: RaiseLeaderEpochs, performed: Performed) -> None:
        waiting = list(step.partitions)
        while waiting:
            moves = decide_leader_epochs(self._context, waiting, step.is_new_on)
            written = await self._write(moves, performed)
            waiting = await self.refresh_states(written.stale)

    async def _write(self, moves: PartitionMoves, performed: Performed) -> WrittenStates:
        """Write what was decided; apply and send what was written."""
        created = await self._store.create_states(moves.creates)
        updated = await self._store.update_states(moves.updates)
        written = WrittenStates(
            created.leadership | updated.leadership, created.stale + updated.stale
        )
        for partition in moves.unclean:
            if partition in written.leadership:
                before = self._context.leadership[partition]
                warn_of_unclean(partition, before, written.leadership[partition])
                self.unclean_elections += 1
        self._apply_leadership(written, performed)
        for partition in (*moves.moved, *written.leadership):
            self._send(moves.messages.get(partition, ()))
        performed.refused.update(moves.refused)
        for partition in (*moves.creates, *moves.updates):
            if partition not in written.leadership and partition not in written.stale:
                performed.refused[partition] = _GONE
        return written

    async def _changed_meanwhile(self, refused: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The refused partitions whose `state` has changed: leaders write new ISRs themselves."""
        before = {
            each: self._context.leadership[each]
            for each in refused
            if each in self._context.leadership
        }
        await self.refresh_states(before)
        return [
            each
            for each, leadership in before.items()
            if self._context.leadership[each] != leadership
        ]

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
                # Its leader may have added it to the ISR since, and would wait for it.
                left = {each.topic_partition for each in moves.moved} - moves.updates.keys()
                if await self._changed_meanwhile(sorted(left)):
                    continue
            written = await self._store.update_states(moves.updates)
            self._apply_leadership(written, performed)
            unwritten = moves.updates.keys() - written.leadership.keys()
            for replica in moves.moved:
                if replica.topic_partition not in unwritten:
                    self._context.apply_replica_state(replica, step.to)
            for partition, messages in moves.messages.items():
                if partition not in unwritten:
                    self._send(messages)
            performed.refused.update(
                (replica.topic_partition, refusal) for replica, refusal in moves.refused.items()
            )
            again = frozenset(await self.refresh_states(written.stale))
            waiting = [each for each in moves.moved if each.topic_partition in again]

    # -- topics --------------------------------------------------------------

    async def _set_assignments(self, step: SetAssignments, performed: Performed) -> None:
        topic = self._context.topics[step.topic]
        wanted = AssignedTopic(
            topic.topic_id, {**topic.partitions, **step.assignments}, topic.version
        )
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
        """Remove partitions from the znode; keep what a tool has written since it was read."""
        while (asked := await self._watches.reassignment()) is not None:
            left = {each: to for each, to in asked.targets.items() if each not in partitions}
            if left == asked.targets and left:
                return
            data = encode_reassignment(left) if left else None
            if await self._store.replace(REASSIGN_PARTITIONS, data, asked.version):
                return

    # -- of all --------------------------------------------------------------

    async def _send_all_metadata(self, brokers: tuple[BrokerId, ...] | None) -> None:
        """Send the metadata of every topic, some topics at a time and each of them whole.

        A client must see a topic with all its partitions. One request for 100,000 of them would
        keep the loops of both brokers busy for a second.
        """
        for partitions in whole_topics(self._context):
            self._batch.add_update_metadata(brokers, partitions)
            self._channels.send(self._batch.build())
            await asyncio.sleep(0)

    async def refresh_states(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Read and apply the partitions' `state` znodes; return the partitions that have one."""
        states = await self._watches.states(partitions)
        self.apply_states(states)
        return list(states)

    def apply_states(self, states: Mapping[TopicPartition, PartitionLeadership]) -> None:
        """Apply states that were read.

        An older version belongs to a topic that was deleted and created again; the watch on the
        topic reports that.
        """
        for partition, leadership in states.items():
            known = self._context.leadership.get(partition)
            if known is None or leadership.version >= known.version:
                self._context.apply_leadership(partition, leadership)

    def _apply_leadership(self, written: WrittenStates, performed: Performed) -> None:
        for partition, leadership in written.leadership.items():
            self._context.apply_leadership(partition, leadership)
        performed.leadership.update(written.leadership)

    def _send(self, messages: Iterable[ControlMessage]) -> None:
        for message in messages:
            self._batch.add(message)


def _log_elected(step: MovePartitions, moves: PartitionMoves, written: WrittenStates) -> None:
    """Log elections; the first one of a new partition is logged with its topic."""
    elected = sum(each not in moves.creates for each in written.leadership)
    if elected:
        log.info("leaders elected strategy=%s count=%d", step.by.name, elected)
    if log.isEnabledFor(logging.DEBUG):
        for partition, leadership in written.leadership.items():
            log.debug("leader elected partition=%s state=%s", partition, leadership.state)


def _log_refused(refused: dict[TopicPartition, ApiError]) -> None:
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
