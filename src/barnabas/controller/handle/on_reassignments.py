"""What the controller does to move partitions: asked by node or request, until the move ends."""

import logging
from collections.abc import Iterable

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment
from barnabas.controller.controller_epoch import Reign
from barnabas.controller.decide import reassignments
from barnabas.controller.decide.steps import DropReassignments, Refusal
from barnabas.controller.events import (
    AlterReassignments,
    ListReassignments,
    ReassignedIsrChanged,
    ReassignmentNode,
)
from barnabas.controller.handle.on_topics import resume_deletions

log = logging.getLogger("barnabas.controller")


async def on_alter_reassignments(
    reign: Reign, event: AlterReassignments
) -> dict[TopicPartition, Refusal | None]:
    """Begin, replace and cancel moves; answers for each why not, or None."""
    context, targets = reign.context, event.targets
    await reign.performer.read_again(each for each in targets if each in context)
    answers = {each: _check(reign, each, target) for each, target in targets.items()}
    granted = {each: to for each, to in targets.items() if answers[each] is None}
    begun = {each: to for each, to in granted.items() if to is not None}
    cancelled = [each for each, to in granted.items() if to is None]
    if begun:
        await reign.perform((DropReassignments(tuple(begun)),))
    await _begin(reign, begun)
    await reign.perform(reassignments.decide_cancel(context, *cancelled))
    await resume_deletions(reign)
    if cancelled:
        log.info("reassignments cancelled partitions=%d", len(cancelled))
    return answers


def _check(
    reign: Reign, partition: TopicPartition, target: tuple[BrokerId, ...] | None
) -> Refusal | None:
    if target is None:
        return reassignments.check_cancel(reign.context, partition)
    return reassignments.check_target(reign.context, partition, target)


async def on_reassignment_node(reign: Reign, event: ReassignmentNode) -> None:
    await _begin_by_node(reign)


async def resume_reassignments(reign: Reign) -> None:
    """A new controller goes on with all moves: what the node asks for, and what was under way."""
    under_way = reign.context.reassigning()
    await reign.perform(reassignments.decide_resume(reign.context, *under_way))
    await _begin_by_node(reign)
    await go_on(reign, under_way)


async def _begin_by_node(reign: Reign) -> None:
    """Do what /admin/reassign_partitions asks for and is not under way; drop what cannot be."""
    context, asked = reign.context, await reign.watching.reassignment()
    targets = asked.targets if asked is not None else {}
    await reign.performer.read_again(each for each in targets if each in context)
    new = {each: to for each, to in targets.items() if not _is_moving_to(reign, each, to)}
    refused = {
        each: refusal
        for each, to in new.items()
        if (refusal := reassignments.check_planned(context, each, to)) is not None
    }
    for partition, refusal in refused.items():
        log.warning("reassignment refused partition=%s why=%s", partition, refusal.message)
    if refused:
        await reign.perform((DropReassignments(tuple(refused)),))
    await _begin(reign, {each: to for each, to in new.items() if each not in refused})
    await resume_deletions(reign)


def _is_moving_to(reign: Reign, partition: TopicPartition, target: tuple[BrokerId, ...]) -> bool:
    if partition not in reign.context:
        return False
    assignment = reign.context.assignment(partition)
    return assignment.is_reassigning and assignment.target == target


async def _begin(reign: Reign, targets: dict[TopicPartition, tuple[BrokerId, ...]]) -> None:
    if targets:
        log.info("reassignments begin partitions=%d", len(targets))
        await reign.perform(reassignments.decide_starts(reign.context, targets))
        await go_on(reign, targets)


async def on_reassigned_isr_changed(reign: Reign, event: ReassignedIsrChanged) -> None:
    await go_on(reign, [event.partition])


async def go_on(reign: Reign, partitions: Iterable[TopicPartition]) -> None:
    """Watch those that are being moved, and end the moves of which all targets are in sync."""
    context = reign.context
    moving = [p for p in partitions if p in context and context.assignment(p).is_reassigning]
    if not moving:
        return
    reign.performer.learn(await reign.watching.moving_states(moving))
    if steps := reassignments.decide_progress(context, *moving):
        await reign.perform(steps)
        ended = [p for p in moving if not context.assignment(p).is_reassigning]
        log.info("reassignments ended partitions=%d", len(ended))
        await resume_deletions(reign)


async def on_list_reassignments(
    reign: Reign, event: ListReassignments
) -> dict[TopicPartition, Assignment]:
    context = reign.context
    asked = context.reassigning() if event.partitions is None else event.partitions
    return {
        each: context.assignment(each)
        for each in asked
        if each in context and context.assignment(each).is_reassigning
    }
