"""What the controller does when topics are made, grown or deleted."""

import logging
from collections.abc import Iterable

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Topic
from barnabas.controller.controller_epoch import Reign
from barnabas.controller.decide import new_partitions, topic_deletions
from barnabas.controller.events import (
    DeletionsChanged,
    PartitionsChanged,
    ReplicasDeleted,
    TopicsChanged,
)
from barnabas.controller.io.tree_watches import topic_assignment
from barnabas.znodes.layout import encode_topic
from barnabas.znodes.paths import topic_path
from barnabas.znodes.tree import BadVersion, NoNode, Set, Stat

log = logging.getLogger("barnabas.controller")


async def on_topics_changed(reign: Reign, event: TopicsChanged) -> None:
    """Bring new topics into being; forget those that somebody removed by hand."""
    context = reign.context
    names = await reign.watching.topic_names()
    here = frozenset(names)
    for gone in [name for name in context.topics if name not in here]:
        log.warning("topic vanished from the tree topic=%s", gone)
        context.apply_topic_gone(gone)
    await _begin(reign, [name for name in names if name not in context.topics])


async def on_partitions_changed(reign: Reign, event: PartitionsChanged) -> None:
    """Bring added partitions into being; what is added to a topic in deletion is taken back."""
    context, name = reign.context, event.topic
    found = (await reign.watching.topics([name])).get(name)
    known = context.topics.get(name)
    if found is None or known is None:
        return
    if found.topic_id != known.topic_id and found.topic_id is not None:
        log.warning("topic was replaced by another of its name topic=%s", name)
        context.apply_topic_gone(name)
        await _begin(reign, [name])
        return
    added = {n: to for n, to in found.partitions.items() if n not in known.partitions}
    if added and context.is_deleting(name):
        await _take_back(reign, name, found.version)
        return
    context.apply_assignment(name, added, found.version)
    if added:
        log.info("partitions added topic=%s count=%d", name, len(added))
        partitions = [TopicPartition(name, index) for index in added]
        await reign.perform(new_partitions.decide_new_partitions(context, partitions))


async def _begin(reign: Reign, names: list[str]) -> None:
    """Know these topics and elect the first leaders of their partitions."""
    made = await read_topics(reign, names)
    for name, topic in made.items():
        reign.context.apply_topic(name, topic)
        log.info("topic made topic=%s partitions=%d", name, len(topic.partitions))
    partitions = [each for name in made for each in reign.context.partitions_of(name)]
    await reign.perform(new_partitions.decide_new_partitions(reign.context, partitions))


async def read_topics(reign: Reign, names: Iterable[str]) -> dict[str, Topic]:
    """Topics as their znodes tell of them; those that have no id yet are given one."""
    found = await reign.watching.topics(list(names))
    for name, topic in found.items():
        if topic.topic_id is None:
            topic.topic_id = reign.random.uuid()
            await _write(reign, name, topic)
    return found


async def _write(reign: Reign, name: str, topic: Topic) -> None:
    try:
        written = topic_assignment(topic)
        topic.version = await reign.store.write_topic(name, written, topic.version)
    except NoNode:
        log.warning("topic vanished from the tree topic=%s", name)


async def _take_back(reign: Reign, name: str, version: int) -> None:
    log.warning("partitions added while the topic is being deleted are ignored topic=%s", name)
    known = reign.context.topics[name]
    written = Set(topic_path(name), encode_topic(topic_assignment(known)), version)
    try:
        (stat,) = await reign.store.write(written)
    except (BadVersion, NoNode):
        return  # the watch tells of whatever came between
    assert isinstance(stat, Stat)
    reign.context.apply_assignment(name, {}, stat.version)


async def on_deletions_changed(reign: Reign, event: DeletionsChanged) -> None:
    marked = await reign.watching.deletions()
    enabled = reign.settings().delete_topic_enabled
    await reign.perform(topic_deletions.decide_deletions(reign.context, marked, enabled))
    await resume_deletions(reign)


async def on_replicas_deleted(reign: Reign, event: ReplicasDeleted) -> None:
    steps = topic_deletions.decide_replicas_deleted(reign.context, event.broker_id, event.codes)
    await reign.perform(steps)
    await resume_deletions(reign)


async def resume_deletions(reign: Reign) -> None:
    """Do for the topics that are to be deleted whatever can be done now."""
    await reign.perform(topic_deletions.decide_resume(reign.context))
