"""Handlers of reassignments: requested by znode or by a client, until they complete."""

import logging
from collections.abc import Iterable

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment
from barnabas.controller.decide import reassignments
from barnabas.controller.decide.steps import ApiError, DropReassignments
from barnabas.controller.events import (
    AlterReassignments,
    ListReassignments,
    ReassignedIsrChanged,
    ReassignmentNode,
)
from barnabas.controller.handle.active_controller import ActiveController
from barnabas.controller.handle.on_topics import resume_deletions

log = logging.getLogger("barnabas.controller")


async def on_alter_reassignments(
    active: ActiveController, event: AlterReassignments
) -> dict[TopicPartition, ApiError | None]:
    """Start, replace and cancel reassignments; return the error of each, or None."""
    context, targets = active.context, event.targets
    await active.performer.refresh_states(each for each in targets if each in context)
    answers = {each: _check(active, each, target) for each, target in targets.items()}
    granted = {each: to for each, to in targets.items() if answers[each] is None}
    begun = {each: to for each, to in granted.items() if to is not None}
    cancelled = [each for each, to in granted.items() if to is None]
    if begun:
        await active.perform((DropReassignments(tuple(begun)),))
    await _begin(active, begun)
    await active.perform(reassignments.decide_cancel(context, *cancelled))
    await resume_deletions(active)
    if cancelled:
        log.info("reassignments cancelled partitions=%d", len(cancelled))
    return answers


def _check(
    active: ActiveController, partition: TopicPartition, target: tuple[BrokerId, ...] | None
) -> ApiError | None:
    if target is None:
        return reassignments.check_cancel(active.context, partition)
    return reassignments.check_target(active.context, partition, target)


async def on_reassignment_node(active: ActiveController, event: ReassignmentNode) -> None:
    await _begin_by_node(active)


async def resume_reassignments(active: ActiveController) -> None:
    """Continue all reassignments of a former controller, and start those of the znode."""
    under_way = active.context.reassigning()
    await active.perform(reassignments.decide_resume(active.context, *under_way))
    await _begin_by_node(active)
    await advance_reassignments(active, under_way)


async def _begin_by_node(active: ActiveController) -> None:
    """Start the reassignments of /admin/reassign_partitions; remove the refused ones from it."""
    context, asked = active.context, await active.watches.reassignment()
    targets = asked.targets if asked is not None else {}
    await active.performer.refresh_states(each for each in targets if each in context)
    new = {each: to for each, to in targets.items() if not _is_moving_to(active, each, to)}
    refused = {
        each: refusal
        for each, to in new.items()
        if (refusal := reassignments.check_planned(context, each, to)) is not None
    }
    for partition, refusal in refused.items():
        log.warning("reassignment refused partition=%s why=%s", partition, refusal.message)
    if refused:
        await active.perform((DropReassignments(tuple(refused)),))
    await _begin(active, {each: to for each, to in new.items() if each not in refused})
    await resume_deletions(active)


def _is_moving_to(
    active: ActiveController, partition: TopicPartition, target: tuple[BrokerId, ...]
) -> bool:
    if partition not in active.context:
        return False
    assignment = active.context.assignment(partition)
    return assignment.is_reassigning and assignment.target == target


async def _begin(
    active: ActiveController, targets: dict[TopicPartition, tuple[BrokerId, ...]]
) -> None:
    if targets:
        log.info("reassignments started partitions=%d", len(targets))
        await active.perform(reassignments.decide_starts(active.context, targets))
        await advance_reassignments(active, targets)


async def on_reassigned_isr_changed(active: ActiveController, event: ReassignedIsrChanged) -> None:
    await advance_reassignments(active, active.watches.take_moved())


async def advance_reassignments(
    active: ActiveController, partitions: Iterable[TopicPartition]
) -> None:
    """Watch the partitions under reassignment; complete those with all targets in sync."""
    context = active.context
    moving = [p for p in partitions if p in context and context.assignment(p).is_reassigning]
    if not moving:
        return
    active.performer.apply_states(await active.watches.moving_states(moving))
    if steps := reassignments.decide_progress(context, *moving):
        await active.perform(steps)
        ended = [p for p in moving if not context.assignment(p).is_reassigning]
        log.info("reassignments completed partitions=%d", len(ended))
        await resume_deletions(active)


async def on_list_reassignments(
    active: ActiveController, event: ListReassignments
) -> dict[TopicPartition, Assignment]:
    context = active.context
    asked = context.reassigning() if event.partitions is None else event.partitions
    return {
        each: context.assignment(each)
        for each in asked
        if each in context and context.assignment(each).is_reassigning
    }
