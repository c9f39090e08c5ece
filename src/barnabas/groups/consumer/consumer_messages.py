"""Requests and replies of consumer groups, independent of the API version."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from barnabas.base.errors import ErrorCode
from barnabas.groups.assignors.assignors import Assignment
from barnabas.groups.classic.classic_messages import MEMBER_BYTES

JOINING: Final = 0  # as a member epoch
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2  # a static member that will be back
UNCHANGED_MS: Final = -1


def subscription_bytes(names: Iterable[str], regex: str | None) -> int:
    """The bytes that a member of this subscription takes."""
    return MEMBER_BYTES + sum(map(len, names)) + len(regex or "")


class Topic(NamedTuple):
    """A topic as the cluster knows it; `racks` of each partition, if any rack is known."""

    topic_id: UUID
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


Topics: TypeAlias = Mapping[str, Topic]


class MigrationPolicy(Enum):
    """The directions in which groups with members may change between the protocols."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Kafka's properties `group.consumer.*`, `group.max.size` for downgraded groups, and those of
    ours for bytes.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")  # the first is for groups that do not choose
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_max_size: int = 2_147_483_647
    max_bytes: int = 128 * 1024 * 1024
    max_member_bytes: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatRequest:
    """None and UNCHANGED_MS stand for fields that did not change."""

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str  # as Kafka writes it: a slash and the address
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None  # empty: no longer set
    server_assignor: str | None = None
    owned: Assignment | None = None
    knows_its_id: bool = True  # since version 1 the client generates its member id
    # The client's right to see a topic that a regex finds.
    may_describe: Callable[[str], bool] = field(default=lambda _: True, compare=False, repr=False)

    @property
    def size(self) -> int:
        return subscription_bytes(self.subscribed_topic_names or (), self.subscribed_topic_regex)

    @property
    def is_full(self) -> bool:
        """True if it has all fields: the member joins, or did not get the last reply."""
        return self.member_epoch == JOINING or (
            self.rebalance_timeout_ms != UNCHANGED_MS
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.owned is not None
        )


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatReply:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None  # None: unchanged

    def failed(self, error: ErrorCode) -> "ConsumerHeartbeatReply":
        return ConsumerHeartbeatReply(error)


class DescribedTopic(NamedTuple):
    topic_id: UUID
    topic_name: str
    partitions: tuple[int, ...]


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[DescribedTopic, ...]
    target_assignment: tuple[DescribedTopic, ...]
    uses_classic_protocol: bool


@dataclass(frozen=True, slots=True)
class DescribedConsumerGroup:
    group_id: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()
