"""Handlers of topic events: created, partitions added, deleted."""

import logging
from collections.abc import Iterable
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import AssignedTopic
from barnabas.controller.decide import new_partitions, topic_deletions
from barnabas.controller.events import (
    DeletionsChanged,
    PartitionsChanged,
    ReplicasDeleted,
    TopicsChanged,
)
from barnabas.controller.handle.active_controller import ActiveController
from barnabas.controller.io.tree_watches import topic_assignment
from barnabas.znodes.layout import encode_topic
from barnabas.znodes.paths import topic_path
from barnabas.znodes.tree import BadVersion, NoNode, SetData, Stat

log = logging.getLogger("barnabas.controller")

# Topics whose leaders are elected together: brokers need not wait for the last of very many.
_BEGUN_AT_ONCE: Final = 500


async def on_topics_changed(active: ActiveController, event: TopicsChanged) -> None:
    """Create the partitions of new topics; forget topics that were removed by hand."""
    context = active.context
    names = await active.watches.topic_names()
    here = frozenset(names)
    for gone in [name for name in context.topics if name not in here]:
        log.warning("topic vanished from the tree topic=%s", gone)
        context.apply_topic_gone(gone)
    await _begin(active, [name for name in names if name not in context.topics])


async def on_partitions_changed(active: ActiveController, event: PartitionsChanged) -> None:
    """Create added partitions; undo the addition if the topic is being deleted."""
    context, name = active.context, event.topic
    found = (await active.watches.topics([name])).get(name)
    known = context.topics.get(name)
    if found is None or known is None:
        return
    if found.topic_id != known.topic_id and found.topic_id is not None:
        log.warning("topic was replaced by another of the same name topic=%s", name)
        context.apply_topic_gone(name)
        await _begin(active, [name])
        return
    added = {n: to for n, to in found.partitions.items() if n not in known.partitions}
    if added and context.is_deleting(name):
        await _take_back(active, name, found.version)
        return
    context.apply_assignment(name, added, found.version)
    if added:
        log.info("partitions added topic=%s count=%d", name, len(added))
        partitions = [TopicPartition(name, index) for index in added]
        await active.perform(new_partitions.decide_new_partitions(context, partitions))


async def _begin(active: ActiveController, names: list[str]) -> None:
    """Add these topics to the context and elect the first leaders of their partitions."""
    created, count = list[str](), 0
    for start in range(0, len(names), _BEGUN_AT_ONCE):
        made = await read_topics(active, names[start : start + _BEGUN_AT_ONCE])
        for name, topic in made.items():
            active.context.apply_topic(name, topic)
        partitions = [each for name in made for each in active.context.partitions_of(name)]
        await active.perform(new_partitions.decide_new_partitions(active.context, partitions))
        created += made
        count += len(partitions)
    if len(created) == 1:
        log.info("new topic topic=%s partitions=%d", created[0], count)
    elif created:
        log.info("new topics count=%d partitions=%d first=%s", len(created), count, created[0])


async def read_topics(active: ActiveController, names: Iterable[str]) -> dict[str, AssignedTopic]:
    """Topics as their znodes describe them; a topic without an id gets one."""
    found = await active.watches.topics(list(names))
    for name, topic in found.items():
        if topic.topic_id is None:
            topic.topic_id = active.random.uuid()
            await _write(active, name, topic)
    return found


async def _write(active: ActiveController, name: str, topic: AssignedTopic) -> None:
    try:
        written = topic_assignment(topic)
        topic.version = await active.store.write_topic(name, written, topic.version)
    except NoNode:
        log.warning("topic vanished from the tree topic=%s", name)


async def _take_back(active: ActiveController, name: str, version: int) -> None:
    log.warning("partitions added while the topic is being deleted are ignored topic=%s", name)
    known = active.context.topics[name]
    written = SetData(topic_path(name), encode_topic(topic_assignment(known)), version)
    try:
        (stat,) = await active.store.write(written)
    except (BadVersion, NoNode):
        return  # the watch reports the other write
    assert isinstance(stat, Stat)
    active.context.apply_assignment(name, {}, stat.version)


async def on_deletions_changed(active: ActiveController, event: DeletionsChanged) -> None:
    marked = await active.watches.deletions()
    enabled = active.settings().delete_topic_enabled
    await active.perform(topic_deletions.decide_deletions(active.context, marked, enabled))
    await resume_deletions(active)


async def on_replicas_deleted(active: ActiveController, event: ReplicasDeleted) -> None:
    steps = topic_deletions.decide_replicas_deleted(active.context, event.broker_id, event.codes)
    await active.perform(steps)
    await resume_deletions(active)


async def resume_deletions(active: ActiveController) -> None:
    """Advance all topic deletions as far as possible."""
    await active.perform(topic_deletions.decide_resume(active.context))
