"""The record of a classic group: generation, protocol, leader, members."""

from dataclasses import dataclass, field
from typing import Final

from barnabas.wire.message_schema import BYTES, INT32, INT64, STRING, since

NO_TIMESTAMP: Final = -1
NO_TIMEOUT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """`subscription` is the member's metadata for the chosen protocol."""

    member_id: str = field(metadata=STRING)
    group_instance_id: str | None = field(metadata=since(3, STRING), default=None)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    rebalance_timeout_ms: int = field(metadata=since(1, INT32), default=NO_TIMEOUT)
    session_timeout_ms: int = field(metadata=INT32)
    subscription: bytes = field(metadata=BYTES)
    assignment: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """`current_state_timestamp_ms` is the time when the group entered its state."""

    protocol_type: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    protocol: str | None = field(metadata=STRING)
    leader: str | None = field(metadata=STRING)
    current_state_timestamp_ms: int = field(metadata=since(2, INT64), default=NO_TIMESTAMP)
    members: tuple[MemberMetadata, ...]


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group; without a value, its tombstone."""

    group_id: str
    value: GroupMetadataValue | None = None
