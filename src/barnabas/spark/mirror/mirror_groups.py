"""Translates what groups have committed in one cluster to the same places in its copy."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from barnabas.base.ids import TopicPartition as Partition
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.groups.groups_admin import GroupAdmin
from barnabas.spark.mirror.mirror_state import Lineage, MirrorState, Sync

# How many records a partition of the source has in a range of offsets.
Count = Callable[[str, int, int, int], int]


class Translated(NamedTuple):
    """One group: how many of its partitions were moved in the target, and why others were not."""

    group: str
    partitions: int
    note: str = ""


def translate_groups(
    source: GroupAdmin,
    target: GroupAdmin,
    lineages: Mapping[str, Lineage],
    state: MirrorState,
    count: Count,
    wanted: Collection[str],
) -> list[Translated]:
    """Commit for each group, or for these, what it has committed in the source.

    A group that has members in the target, or is further there, is left alone.
    Raises  CommandFailed if a group that is wanted is not there
    """
    names = list(wanted) or [str(each.group_id) for each in source.listed()[0]]
    if wanted:
        for name in names:
            source.find(name)
    found = []
    for name in names:
        offsets = {
            Partition(lineages[p.topic].target, p.partition): _translate(
                state.syncs(lineages[p.topic], p.partition), p, offset, count
            )
            for p, offset in source.committed(name).items()
            if p.topic in lineages and state.syncs(lineages[p.topic], p.partition)
        }
        if offsets:
            found.append(_commit(target, name, offsets))
    return found


def _commit(target: GroupAdmin, name: str, offsets: Mapping[Partition, int]) -> Translated:
    there = target.committed(name)
    ahead = {each: offset for each, offset in offsets.items() if offset > there.get(each, -1)}
    if not ahead:
        return Translated(name, 0)
    group = target.described(name)
    if group is not None and group.members:
        return Translated(name, 0, "has members in the target, and goes its own way")
    try:
        target.commit(name, ahead)
    except CommandFailed as failure:
        return Translated(name, 0, str(failure))
    return Translated(name, len(ahead))


def _translate(syncs: Sequence[Sync], partition: Partition, offset: int, count: Count) -> int:
    """Where the record at `offset` is in the copy, or where it will be.

    Beyond what is copied, the end of the copy; before it, its beginning.
    """
    if offset <= syncs[0].source:
        return syncs[0].target
    if offset >= syncs[-1].source:
        return syncs[-1].target
    before = max(sync for sync in syncs if sync.source <= offset)
    after = min(sync for sync in syncs if sync.source > offset)
    if after.follows(before):
        return before.target + offset - before.source
    # Where compaction has removed some since, it is too early, and never too late.
    return before.target + count(partition.topic, partition.partition, before.source, offset)
