"""Consumer groups as pages show them: classic and KIP-848, members, offsets, lag."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.client.metadata import fields
from barnabas.client.retries import error_words
from barnabas.console.cluster.bulk_requests import fetch_offsets, read_committed
from barnabas.console.cluster.console_client import (
    CLIENT_ID,
    EARLIEST,
    LATEST,
    ClusterFailed,
    ConsoleClient,
    check,
)
from barnabas.console.cluster.topic_index import TopicIndex, read_partitions
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import UNREADABLE

CONSUMER: Final = "consumer"
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")
_SPARK: Final = "spark-"  # as a query of Barnabas' source names its group, unless it has a groupId


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it."""

    name: str
    state: str
    type: str
    protocol_type: str
    coordinator: int

    @property
    def is_spark(self) -> bool:
        return is_spark(self.name)

    @property
    def has_members(self) -> bool:
        return self.state not in _WITHOUT_MEMBERS


def group_link(name: str) -> str:
    """The group's page, from the console's root; names may have any character."""
    return f"group?{urlencode({'name': name})}"


def is_spark(group: str) -> bool:
    """True if a Spark query commits its progress as this group."""
    return group.startswith(_SPARK)


@dataclass(frozen=True, slots=True)
class ListedMember:
    """One member, and the partitions it owns; `target` is what it will own (KIP-848)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    owns: Mapping[str, Sequence[int]]
    target: Mapping[str, Sequence[int]] | None = None


class LeftOut(NamedTuple):
    """A partition that no lag counts, and why."""

    partition: TopicPartition
    why: str


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The committed offset of a group in one partition, and how far it is behind."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    owner: ListedMember | None
    # Why the lag is not known; empty if it is.
    why: str = ""

    @property
    def lag(self) -> int | None:
        if self.why or self.end is None:
            return None
        # Where nothing is committed and the lag is known, the log is empty.
        return 0 if self.committed is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """One group: state, members, offsets."""

    name: str
    state: str
    type: str
    assignor: str
    coordinator: int
    epoch: int | None
    members: Sequence[ListedMember]
    partitions: Sequence[PartitionLag] = field(default=())

    @property
    def lag(self) -> int | None:
        known = [each.lag for each in self.partitions if each.lag is not None]
        return sum(known) if known else None

    @property
    def left_out(self) -> list[LeftOut]:
        return [
            LeftOut(TopicPartition(each.topic, each.partition), each.why)
            for each in self.partitions
            if each.why
        ]


async def list_groups(client: ConsoleClient) -> tuple[list[ListedGroup], dict[int, str]]:
    """All groups of brokers that answer, and why others do not. Raises ClusterFailed if none does.

    A broker that loads its part of `__consumer_offsets` lists none of it.
    """
    request = fields(states_filter=(), types_filter=())
    view = await client.view()
    answers, failed = await client.ask_all(dict.fromkeys(view.ids, request), ApiKey.LIST_GROUPS)
    for broker, answer in answers.items():
        if answer.error_code is not ErrorCode.none:
            failed[broker] = f"broker {broker}: {error_words(answer.error_code)}"
    if not answers:
        raise ClusterFailed(next(iter(failed.values()), "no broker lists groups"))
    listed = sorted(
        ListedGroup(
            each.group_id,
            each.group_state or "Unknown",
            (getattr(each, "group_type", "") or "classic").lower(),
            each.protocol_type,
            broker,
        )
        for broker, answer in answers.items()
        for each in answer.groups
    )
    return listed, failed


async def committed_offsets(
    client: ConsoleClient, groups: Sequence[ListedGroup]
) -> dict[str, dict[TopicPartition, int]]:
    """The committed offsets of each group whose coordinator answers."""
    by_broker: dict[int, list[str]] = {}
    for group in groups:
        by_broker.setdefault(group.coordinator, []).append(group.name)
    frames = {broker: fetch_offsets(CLIENT_ID, names) for broker, names in by_broker.items()}
    answers = await client.ask_by_hand(frames, read_committed)
    return {name: offsets for found in answers.values() for name, offsets in found.items()}


class LogEnds(NamedTuple):
    """The log end offsets of partitions, and why those of others are not known.

    `empty` are those that hold no records, of the partitions where a group has committed nothing.
    """

    known: dict[TopicPartition, int]
    unknown: dict[TopicPartition, str]
    empty: frozenset[TopicPartition] = frozenset()

    def why_no_lag(self, at: TopicPartition, committed: Mapping[TopicPartition, int]) -> str:
        """Why it is not known how far a group is behind in a partition; empty if it is."""
        if at in committed or at in self.empty:
            return self.unknown.get(at, "")
        return self.unknown.get(at, "nothing committed")


async def end_offsets(
    client: ConsoleClient,
    index: TopicIndex,
    committed: Iterable[TopicPartition],
    uncommitted: Iterable[TopicPartition] = (),
) -> LogEnds:
    """The log end offsets of partitions, as far as their leaders report them.

    `uncommitted` are partitions that a group owns, and in which it has committed nothing.
    """
    owned = list(dict.fromkeys(uncommitted))
    wanted = list(dict.fromkeys([*committed, *owned]))
    topics = {each.topic for each in wanted if each.topic in index.topics}
    leaders = {
        TopicPartition(name, each.partition): each.leader
        for name in sorted(topics)
        for each in read_partitions(index.topics[name])
    }
    known = await client.offsets([at for at in wanted if at in leaders], leaders, LATEST)
    starts = await client.offsets([at for at in owned if at in known], leaders, EARLIEST)
    return LogEnds(
        known,
        {at: why_unknown(at, leaders) for at in wanted if at not in known},
        frozenset(at for at, start in starts.items() if start >= known[at]),
    )


def why_unknown(at: TopicPartition, leaders: Mapping[TopicPartition, int]) -> str:
    """Why no offset of a partition is known."""
    if at not in leaders:
        return "not in the cluster"
    return "no leader" if leaders[at] < 0 else "its leader reports no offset"


async def describe_group(client: ConsoleClient, index: TopicIndex, name: str) -> GroupDetails:
    """A group with members and offsets. Raises ClusterFailed if there is none."""
    found = await _describe_consumer(client, name) or await _describe_classic(client, name)
    listed = [ListedGroup(name, found.state, found.type, CONSUMER, found.coordinator)]
    committed = (await committed_offsets(client, listed)).get(name, {})
    owners = owners_of(found.members)
    partitions = sorted({**committed, **dict.fromkeys(owners)})
    ends = await end_offsets(client, index, committed, (at for at in owners if at not in committed))
    rows = tuple(
        PartitionLag(
            at.topic,
            at.partition,
            committed.get(at),
            ends.known.get(at),
            owners.get(at),
            ends.why_no_lag(at, committed),
        )
        for at in partitions
    )
    return GroupDetails(
        found.name,
        found.state,
        found.type,
        found.assignor,
        found.coordinator,
        found.epoch,
        found.members,
        rows,
    )


def owners_of(members: Iterable[ListedMember]) -> dict[TopicPartition, ListedMember]:
    """The member that owns each partition."""
    return {
        TopicPartition(topic, number): member
        for member in members
        for topic, numbers in member.owns.items()
        for number in numbers
    }


async def read_members(
    client: ConsoleClient, groups: Sequence[ListedGroup]
) -> dict[str, list[ListedMember]]:
    """The members of these groups; one request to each coordinator, and one for KIP-848."""
    found: dict[str, list[ListedMember]] = {}
    for key, read, is_consumer in (
        (ApiKey.DESCRIBE_GROUPS, _classic_members, False),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, _consumer_members, True),
    ):
        names: dict[int, list[str]] = {}
        for group in groups:
            if (group.type == CONSUMER) == is_consumer:
                names.setdefault(group.coordinator, []).append(group.name)
        requests = {
            broker: fields(
                **{"group_ids" if is_consumer else "groups": tuple(of_broker)},
                include_authorized_operations=False,
            )
            for broker, of_broker in names.items()
        }
        answers, _ = await client.ask_all(requests, key)
        for answer in answers.values():
            for group in answer.groups:
                if group.error_code is ErrorCode.none:
                    found[group.group_id] = read(group)
    return found


async def _coordinator(client: ConsoleClient, name: str) -> int:
    request = fields(key_type=0, coordinator_keys=(name,))
    view = await client.view()
    answer = await client.ask_broker(view.ids[0], ApiKey.FIND_COORDINATOR, request)
    (found,) = answer.coordinators
    check(found, f"the coordinator of group {name}")
    return int(found.node_id)


async def _describe_consumer(client: ConsoleClient, name: str) -> GroupDetails | None:
    """A group of the consumer protocol; None if it is classic, or the cluster has no KIP-848."""
    if not await client.offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
        return None
    request = fields(group_ids=(name,), include_authorized_operations=False)
    answer = await client.ask_group(name, ApiKey.CONSUMER_GROUP_DESCRIBE, request)
    (group,) = answer.groups
    if group.error_code is not ErrorCode.none:
        return None
    coordinator = await _coordinator(client, name)
    return GroupDetails(
        name, group.group_state, CONSUMER, group.assignor_name, coordinator, group.group_epoch,
        _consumer_members(group),
    )  # fmt: skip


def _consumer_members(group: Any) -> list[ListedMember]:
    return [
        ListedMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host.removeprefix("/"),
            each.member_epoch,
            _assigned(each.assignment),
            _assigned(each.target_assignment),
        )
        for each in group.members
    ]


def _classic_members(group: Any) -> list[ListedMember]:
    """Members of other protocols, such as Connect's workers, own no partitions."""
    is_consumer = group.protocol_type == CONSUMER
    return [
        ListedMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host.removeprefix("/"),
            None,
            read_assignment(each.member_assignment) if is_consumer else {},
        )
        for each in group.members
    ]


def _assigned(assignment: Any) -> dict[str, list[int]]:
    return {each.topic_name: list(each.partitions) for each in assignment.topic_partitions}


async def _describe_classic(client: ConsoleClient, name: str) -> GroupDetails:
    request = fields(groups=(name,), include_authorized_operations=False)
    answer = await client.ask_group(name, ApiKey.DESCRIBE_GROUPS, request)
    (group,) = answer.groups
    check(group, f"group {name}")
    if group.group_state == "Dead":
        raise ClusterFailed(
            f"there is no group {name}; it may have been deleted, or its offsets have expired"
        )
    members, coordinator = _classic_members(group), await _coordinator(client, name)
    return GroupDetails(
        name, group.group_state, "classic", group.protocol_data, coordinator, None, members
    )


def read_assignment(data: bytes | None) -> dict[str, list[int]]:
    """The partitions in a member's assignment of the classic protocol; empty if unreadable."""
    from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
    from kio.serial import entity_reader

    if not data:
        return {}
    try:
        found, _ = entity_reader(ConsumerProtocolAssignment)(memoryview(bytes(data)), 2)
    except UNREADABLE:
        return {}
    return {each.topic: list(each.partitions) for each in found.assigned_partitions}
