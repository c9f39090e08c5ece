"""The record of a classic group: its generation, the protocol it chose, and its members."""

from dataclasses import dataclass, field
from typing import Final

from barnabas.groups.records.record_schema import (
    BYTES,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    array,
    kind,
    struct_of,
)

NO_TIMESTAMP: Final = -1
NO_TIMEOUT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """`subscription` is what the member offered for the protocol that was chosen."""

    member_id: str = field(metadata=kind(STRING))
    group_instance_id: str | None = field(metadata=kind(NULLABLE_STRING, since=3), default=None)
    client_id: str = field(metadata=kind(STRING))
    client_host: str = field(metadata=kind(STRING))
    rebalance_timeout_ms: int = field(metadata=kind(INT32, since=1), default=NO_TIMEOUT)
    session_timeout_ms: int = field(metadata=kind(INT32))
    subscription: bytes = field(metadata=kind(BYTES))
    assignment: bytes = field(metadata=kind(BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """`current_state_timestamp_ms` is when the group entered its state, if that is known."""

    protocol_type: str = field(metadata=kind(STRING))
    generation: int = field(metadata=kind(INT32))
    protocol: str | None = field(metadata=kind(NULLABLE_STRING))
    leader: str | None = field(metadata=kind(NULLABLE_STRING))
    current_state_timestamp_ms: int = field(metadata=kind(INT64, since=2), default=NO_TIMESTAMP)
    members: tuple[MemberMetadata, ...] = field(metadata=kind(array(struct_of(MemberMetadata))))


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group; without a value there is none by that id any more."""

    group_id: str
    value: GroupMetadataValue | None = None
