"""Group offsets in a mirror: committed offsets of the source, translated to the target."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from barnabas.base.ids import TopicPartition as Partition
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.groups.groups_admin import GroupAdmin
from barnabas.spark.mirror.mirror_state import Lineage, MirrorState, OffsetSync

# The number of records of a source partition in a range of offsets.
Count = Callable[[str, int, int, int], int]


class GroupTranslation(NamedTuple):
    """One group: the number of partitions committed in the target, and why others were not."""

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
) -> list[GroupTranslation]:
    """Commit in the target the offsets of these groups, or of all groups.

    A group with members in the target, or with later offsets there, is not changed.
    Raises  CommandFailed if a wanted group does not exist
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


def _commit(target: GroupAdmin, name: str, offsets: Mapping[Partition, int]) -> GroupTranslation:
    there = target.committed(name)
    ahead = {each: offset for each, offset in offsets.items() if offset > there.get(each, -1)}
    if not ahead:
        return GroupTranslation(name, 0)
    group = target.described(name)
    if group is not None and group.members:
        return GroupTranslation(name, 0, "has members in the target; not changed")
    try:
        target.commit(name, ahead)
    except CommandFailed as failure:
        return GroupTranslation(name, 0, str(failure))
    return GroupTranslation(name, len(ahead))


def _translate(syncs: Sequence[OffsetSync], partition: Partition, offset: int, count: Count) -> int:
    """The offset in the copy of the record at `offset` in the source.

    Past the last copied record it is the end of the copy; before the first, its beginning.
    """
    if offset <= syncs[0].source:
        return syncs[0].target
    if offset >= syncs[-1].source:
        return syncs[-1].target
    before = max(sync for sync in syncs if sync.source <= offset)
    after = min(sync for sync in syncs if sync.source > offset)
    if after.follows(before):
        return before.target + offset - before.source
    # If compaction has removed records since, the result is too early, never too late.
    return before.target + count(partition.topic, partition.partition, before.source, offset)
