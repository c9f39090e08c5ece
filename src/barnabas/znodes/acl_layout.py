"""The znodes of ACLs and of their change notifications, as Kafka's AclAuthorizer has them.

An ACL of one name, or of `*`, is in /kafka-acl; one of a prefix in /kafka-acl-extended/prefixed.
Each has notifications of its own. The types, operations and permissions are texts here.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from barnabas.znodes.json_fields import integer, parsed, reading, text, to_json

ACL: Final = "/kafka-acl"
PREFIXED_ACL: Final = "/kafka-acl-extended/prefixed"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_CHANGE: Final = f"{ACL_CHANGES}/acl_changes_"
EXTENDED_ACL_CHANGE: Final = f"{EXTENDED_ACL_CHANGES}/acl_changes_"
RESOURCE_TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")

# Every broker with an authorizer creates these if they are missing, without data.
ACL_PATHS: Final = (
    *(f"{root}/{kind}" for root in (ACL, PREFIXED_ACL) for kind in RESOURCE_TYPES),
    ACL_CHANGES,
    EXTENDED_ACL_CHANGES,
)


class AclFields(NamedTuple):
    """One entry, as its JSON has it."""

    principal: str
    permission_type: str
    operation: str
    host: str


class AclResource(NamedTuple):
    """A pattern, as paths and notifications have it: the type as TransactionalId."""

    type: str
    name: str
    is_prefix: bool


def acl_path(resource: AclResource) -> str:
    root = PREFIXED_ACL if resource.is_prefix else ACL
    return f"{root}/{resource.type}/{resource.name}"


def encode_acls(entries: Iterable[AclFields]) -> bytes:
    return to_json(
        {
            "version": 1,
            "acls": [
                {
                    "principal": entry.principal,
                    "permissionType": entry.permission_type,
                    "operation": entry.operation,
                    "host": entry.host,
                }
                for entry in entries
            ],
        }
    )


def decode_acls(path: str, data: bytes) -> list[AclFields]:
    """The entries; none for a node without data."""
    if not data:
        return []
    with reading(path):
        fields = parsed(data)
        if integer(fields["version"]) != 1:
            raise ValueError(f"version {fields['version']} is not 1")
        return [_entry(each) for each in fields["acls"]]


def _entry(fields: dict[str, Any]) -> AclFields:
    return AclFields(
        text(fields["principal"]),
        text(fields["permissionType"]),
        text(fields["operation"]),
        text(fields["host"]),
    )


def encode_acl_change(resource: AclResource) -> tuple[str, bytes]:
    """The prefix of the notification's path, and its data."""
    kind = _constant(resource.type)
    if not resource.is_prefix:
        return ACL_CHANGE, f"{kind}:{resource.name}".encode()
    fields = {"version": 1, "resourceType": kind, "name": resource.name, "patternType": "PREFIXED"}
    return EXTENDED_ACL_CHANGE, to_json(fields)


def decode_acl_change(path: str, data: bytes) -> AclResource:
    with reading(path):
        if not path.startswith(EXTENDED_ACL_CHANGES):
            kind, colon, name = data.decode().partition(":")
            if not colon:
                raise ValueError(f"{data!r} is not ResourceType:ResourceName")
            return AclResource(_camel(kind), name, False)
        fields = parsed(data)
        if integer(fields["version"]) != 1:
            raise ValueError(f"version {fields['version']} is not 1")
        if text(fields["patternType"]) != "PREFIXED":
            raise ValueError(f"pattern type {fields['patternType']} is not PREFIXED")
        return AclResource(_camel(text(fields["resourceType"])), text(fields["name"]), True)


def _constant(kind: str) -> str:
    """TransactionalId as TRANSACTIONAL_ID."""
    return "".join(f"_{c}" if c.isupper() else c for c in kind)[1:].upper()


def _camel(constant: str) -> str:
    """TRANSACTIONAL_ID, or the name of an older Kafka, Topic, as a type."""
    wanted = constant.replace("_", "").lower()
    for kind in RESOURCE_TYPES:
        if kind.lower() == wanted:
            return kind
    raise ValueError(f"{constant!r} is no type of resource")
