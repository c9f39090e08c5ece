"""The subscribed topics of a consumer group, and its target assignment."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from barnabas.base.laws import law
from barnabas.groups.assignors.assignors import (
    EMPTY,
    AssignedMember,
    Assignment,
    Assignor,
    assign_range,
    partition_count,
)
from barnabas.groups.assignors.uniform_assignor import assign_uniform
from barnabas.groups.consumer.consumer_member import ConsumerMember
from barnabas.groups.consumer.consumer_messages import Topic, Topics
from barnabas.groups.consumer.consumer_regex import TopicRegex
from barnabas.groups.records.consumer_group_records import PartitionMetadata, TopicMetadata

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}


def subscribed_topics(
    members: Iterable[ConsumerMember],
    topics: Topics,
    may_match: Callable[[str], bool] = lambda _: True,
) -> dict[str, TopicMetadata]:
    """The subscribed topics that exist, in the order of names; a regex finds only some of them."""
    names: set[str] = set()
    regexes: set[str] = set()
    for member in members:
        names.update(member.metadata.subscribed_topic_names)
        if member.metadata.subscribed_topic_regex:
            regexes.add(member.metadata.subscribed_topic_regex)
    for regex in sorted(regexes):
        matches = TopicRegex.of(regex).matches
        names.update(name for name in topics if matches(name) and may_match(name))
    found = [(name, topics.get(name)) for name in sorted(names)]
    return {name: _metadata(name, topic) for name, topic in found if topic is not None}


def _metadata(name: str, topic: Topic) -> TopicMetadata:
    racks = tuple(
        PartitionMetadata(partition, tuple(sorted(of_partition)))
        for partition, of_partition in enumerate(topic.racks)
        if of_partition
    )
    return TopicMetadata(topic.topic_id, name, topic.partitions, racks)


def names_by_id(of_group: Mapping[str, TopicMetadata], topics: Topics) -> dict[UUID, str]:
    """The names of topics by id: those that the group knows, and those of the cluster."""
    known = {topic.topic_id: name for name, topic in of_group.items()}
    return known | {topic.topic_id: name for name, topic in topics.items()}


def chosen_assignor(members: Iterable[ConsumerMember], default: str) -> str:
    """The assignor with the most votes; the default if nobody votes."""
    votes = Counter(
        member.metadata.server_assignor for member in members if member.metadata.server_assignor
    )
    known = [(-votes[name], name) for name in votes if name in ASSIGNORS]
    return min(known)[1] if known else default


def decide_targets(
    assignor: str,
    members: Mapping[str, ConsumerMember],
    topics: Mapping[str, TopicMetadata],
    before: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target of each member; `before` is the former target.

    Keeps   GRP-12  a target has every partition that is subscribed to, once
    """
    wanted = _Wanted(topics)
    among = {
        member_id: AssignedMember(
            member.instance_id, wanted.by(member), before.get(member_id, EMPTY)
        )
        for member_id, member in members.items()
    }
    counts = {topic.topic_id: topic.num_partitions for topic in topics.values()}
    assigned = ASSIGNORS[assignor](among, counts)
    all_wanted = frozenset[UUID]().union(*(member.topics for member in among.values()))
    law(
        sum(map(partition_count, assigned.values())) == sum(counts[each] for each in all_wanted),
        "GRP-12 a target has every partition that is subscribed to, once",
        assignor=assignor,
        members=len(members),
    )
    return assigned


class _Wanted:
    """The ids of the topics that members subscribe to; equal subscriptions share one set."""

    def __init__(self, topics: Mapping[str, TopicMetadata]) -> None:
        self._topics = topics
        self._found: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}

    def by(self, member: ConsumerMember) -> frozenset[UUID]:
        names, regex = (
            member.metadata.subscribed_topic_names,
            member.metadata.subscribed_topic_regex,
        )
        found = self._found.get((names, regex))
        if found is None:
            matching = filter(TopicRegex.of(regex).matches, self._topics) if regex else ()
            all_names = {*names, *matching}
            found = self._found[names, regex] = frozenset(
                topic.topic_id for name, topic in self._topics.items() if name in all_names
            )
        return found
