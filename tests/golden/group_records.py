"""Records of consumer groups, and their bytes: `python -m tests.golden.group_records`.

The bytes are those of Kafka's own classes, kept in `group-records.json` under a name and a version.
"""

import base64
import dataclasses
import json
import uuid
from typing import Any, Final, NamedTuple

from barnabas.groups.records.classic_group_record import (
    GroupMetadata,
    GroupMetadataValue,
    MemberMetadata,
)
from barnabas.groups.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartitions,
)
from barnabas.groups.records.group_records import CommittedOffset, GroupRecord, OffsetCommit
from tests.golden.make import GOLDEN
from tests.support.apache_kafka import apache_kafka
from tests.support.kafka_messages import run_kafka_messages

FILE: Final = GOLDEN / "group-records.json"
_PACKAGE: Final = "org.apache.kafka.coordinator.group.generated"
_ID: Final = uuid.UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")

_PARTITIONS: Final = (
    TopicPartitions(_ID, (0, 1, 300)),
    TopicPartitions(uuid.UUID(int=0), ()),
)
_MEMBERS: Final = (
    MemberMetadata(
        member_id="consumer-1-0f1e",
        group_instance_id="instance-1",
        client_id="consumer-1",
        client_host="/10.0.0.1",
        rebalance_timeout_ms=300_000,
        session_timeout_ms=45_000,
        subscription=b"\0\1subscription",
        assignment=bytes(range(200)),
    ),
    MemberMetadata(
        member_id="ü" * 80,
        client_id="",
        client_host="/::1",
        rebalance_timeout_ms=1,
        session_timeout_ms=2**31 - 1,
        subscription=b"",
        assignment=b"",
    ),
)
_GROUP: Final = GroupMetadataValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="consumer-1-0f1e",
    current_state_timestamp_ms=2**40 + 1,
    members=_MEMBERS,
)
_EMPTY_GROUP: Final = GroupMetadataValue(
    protocol_type="", generation=0, protocol=None, leader=None, members=()
)
_MEMBER: Final = ConsumerGroupMemberMetadataValue(
    client_id="client",
    client_host="/10.0.0.1",
    subscribed_topic_names=("orders", "ü" * 100),
    rebalance_timeout_ms=300_000,
)


class Written(NamedTuple):
    """One record, the version of its value, and the record decoded from that version."""

    name: str
    version: int
    record: GroupRecord
    read: GroupRecord


def _offset_commits() -> list[Written]:
    both = CommittedOffset(2**40, 12, "wörk", 2**41, 2**41 + 5)
    plain = both._replace(expire_timestamp_ms=-1)
    written = []
    for version in range(5):
        said = both if version == 1 else plain
        known = said if version >= 3 else said._replace(leader_epoch=-1)
        record = OffsetCommit("group", "orders", 300, said)
        written.append(Written("commit", version, record, record._replace(value=known)))
    terse = OffsetCommit("g", "t", 0, CommittedOffset(0, -1, "", 0))
    return [*written, Written("terse commit", 3, terse, terse)]


def _classic_groups() -> list[Written]:
    return [
        Written(name, version, GroupMetadata("group", value), GroupMetadata("group", known))
        for name, value in (("group", _GROUP), ("empty group", _EMPTY_GROUP))
        for version in range(5)
        for known in [_known(value, version)]
    ]


def _known(value: GroupMetadataValue, version: int) -> GroupMetadataValue:
    """The group as far as the version contains it."""
    members = value.members
    if version < 3:
        members = tuple(dataclasses.replace(each, group_instance_id=None) for each in members)
    if version < 1:
        members = tuple(dataclasses.replace(each, rebalance_timeout_ms=-1) for each in members)
    timestamp_ms = value.current_state_timestamp_ms if version >= 2 else -1
    return dataclasses.replace(value, members=members, current_state_timestamp_ms=timestamp_ms)


_CONSUMER_GROUPS: Final[dict[str, GroupRecord]] = {
    "epoch": ConsumerGroupMetadata("group", ConsumerGroupMetadataValue(5)),
    "topics": ConsumerGroupPartitionMetadata(
        "group",
        ConsumerGroupPartitionMetadataValue(
            (
                TopicMetadata(_ID, "orders", 2, (PartitionMetadata(1, ("a", "b")),)),
                TopicMetadata(uuid.UUID(int=3), "empty", 0),
            )
        ),
    ),
    "member": ConsumerGroupMemberMetadata("group", "member", _MEMBER),
    "classic member": ConsumerGroupMemberMetadata(
        "group",
        "member",
        dataclasses.replace(
            _MEMBER,
            instance_id="instance",
            rack_id="rack",
            subscribed_topic_regex="ord.*",
            server_assignor="uniform",
            classic_member_metadata=ClassicMemberMetadata(
                45_000, (ClassicProtocol("range", bytes(200)), ClassicProtocol("sticky", b""))
            ),
        ),
    ),
    "target epoch": ConsumerGroupTargetAssignmentMetadata(
        "group", ConsumerGroupTargetAssignmentMetadataValue(2**31 - 1)
    ),
    "target": ConsumerGroupTargetAssignmentMember(
        "group", "member", ConsumerGroupTargetAssignmentMemberValue(_PARTITIONS)
    ),
    "current": ConsumerGroupCurrentMemberAssignment(
        "group",
        "member",
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=5,
            previous_member_epoch=4,
            state=2,
            assigned_partitions=_PARTITIONS,
            partitions_pending_revocation=_PARTITIONS[:1],
        ),
    ),
}

RECORDS: Final = (
    *_offset_commits(),
    *_classic_groups(),
    *(Written(name, 0, record, record) for name, record in _CONSUMER_GROUPS.items()),
)


_KEY_VERSIONS: Final = {
    OffsetCommit: 1,
    GroupMetadata: 2,
    ConsumerGroupMetadata: 3,
    ConsumerGroupPartitionMetadata: 4,
    ConsumerGroupMemberMetadata: 5,
    ConsumerGroupTargetAssignmentMetadata: 6,
    ConsumerGroupTargetAssignmentMember: 7,
    ConsumerGroupCurrentMemberAssignment: 8,
}
# Fields whose names differ from ours: they drop the unit, or the kind.
_UNITLESS: Final = (MemberMetadata, GroupMetadataValue, CommittedOffset)


def _key_line(record: GroupRecord) -> str:
    key = {name: value for name, value in _items(record) if name != "value"}
    if isinstance(record, OffsetCommit | GroupMetadata):
        key["group"] = key.pop("groupId")
    return (
        f"{_PACKAGE}.{type(record).__name__}Key {_KEY_VERSIONS[type(record)]} {json.dumps(key)}\n"
    )


def _value_line(written: Written) -> str:
    name = f"{_PACKAGE}.{type(written.record).__name__}Value"
    value = _plain(written.record.value)
    if written.version != 1:
        value.pop("expireTimestamp", None)
    return f"{name} {written.version} {json.dumps(value)}\n"


def _items(message: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(message):
        names = [field.name for field in dataclasses.fields(message)]
    else:
        names = list(message._fields)
    if isinstance(message, _UNITLESS):
        return [(_camel(name.removesuffix("_ms")), getattr(message, name)) for name in names]
    return [(_camel(name), getattr(message, name)) for name in names]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) or isinstance(value, CommittedOffset):
        return {name: _plain(item) for name, item in _items(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def make() -> None:
    lines = [_key_line(each.record) + _value_line(each) for each in RECORDS]
    encoded = (each.hex() for each in run_kafka_messages(apache_kafka(), lines, "--records"))
    golden = {
        f"{each.name} {each.version}": {"key": next(encoded), "value": next(encoded)}
        for each in RECORDS
    }
    FILE.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    make()
