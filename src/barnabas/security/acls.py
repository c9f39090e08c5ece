"""ACLs: operations, resources, permissions, access control entries, and filters of them."""

import enum
import ipaddress
from typing import Final, NamedTuple, Protocol

from barnabas.base.errors import BarnabasError

WILDCARD: Final = "*"
ANY_PRINCIPAL: Final = "User:*"
# The only resource of type Cluster.
CLUSTER_NAME: Final = "kafka-cluster"


class InvalidAcl(BarnabasError):
    """An ACL or a filter that Kafka refuses; the message says why."""


class _Named(enum.IntEnum):
    """Numbers as they go over the wire, names as they are stored in znodes and logged."""

    @property
    def text(self) -> str:
        """The name in Kafka's JSON and paths: TRANSACTIONAL_ID is TransactionalId."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Operation(_Named):
    """An operation of a principal on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(_Named):
    """A kind of resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Named):
    """How the name of a pattern matches the names of resources."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(_Named):
    """The effect of an ACL."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_OPERATIONS: Final = {
    "TOPIC": "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS",
    "GROUP": "READ DESCRIBE DELETE",
    "CLUSTER": "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALTER "
    "DESCRIBE",
    "TRANSACTIONAL_ID": "DESCRIBE WRITE",
    "DELEGATION_TOKEN": "DESCRIBE",
    "USER": "CREATE_TOKENS DESCRIBE_TOKENS",
}
# The operations that exist on each type of resource.
SUPPORTED: Final = {
    ResourceType[kind]: tuple(Operation[name] for name in names.split())
    for kind, names in _OPERATIONS.items()
}
# An ACL that allows one of these allows the operation, too.
IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}


class ResourcePattern(NamedTuple):
    """The resources that an ACL is for: one by name, all of a prefix, or all (`*`)."""

    type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{self.type.text}:{self.pattern_type.name}:{self.name}"

    def covers(self, name: str) -> bool:
        """True if the pattern is for the resource of this name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class Entry(NamedTuple):
    """An access control entry: a principal and host, an operation, and whether it is allowed."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def is_for(self, principal: str, host: str) -> bool:
        return self.principal in (principal, ANY_PRINCIPAL) and (
            self.host in (host, WILDCARD)
            or (":" in host and java_address(self.host) == java_address(host))
        )


def java_address(host: str) -> str:
    """An IPv6 address as Java writes it, and ACLs of Kafka name it: ::1 is 0:0:0:0:0:0:0:1."""
    address, percent, zone = host.partition("%")
    try:
        groups = ipaddress.IPv6Address(address).exploded.split(":")
    except ValueError:
        return host
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone


class Acl(NamedTuple):
    """A pattern and one of its entries; Kafka's AclBinding."""

    resource: ResourcePattern
    entry: Entry

    def __str__(self) -> str:
        principal, host, operation, permission = self.entry
        return f"{permission.name} {principal} from {host} to {operation.name} on {self.resource}"


class AclFilter(NamedTuple):
    """A filter of ACLs; None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return self._is_resource(acl.resource) and self._is_entry(acl.entry)

    def _is_resource(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return pattern.covers(self.resource_name)
        return self.resource_name == pattern.name

    def _is_entry(self, entry: Entry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


def check_acl(acl: Acl) -> None:
    """Raises InvalidAcl unless the ACL can be stored and matched."""
    pattern, entry = acl
    if pattern.type not in SUPPORTED or pattern.pattern_type not in (
        PatternType.LITERAL,
        PatternType.PREFIXED,
    ):
        raise InvalidAcl(f"Invalid resource pattern {pattern}")
    if entry.permission not in (Permission.ALLOW, Permission.DENY):
        raise InvalidAcl("Invalid permissionType")
    if entry.operation not in (*SUPPORTED[pattern.type], Operation.ALL):
        raise InvalidAcl(
            f"ResourceType {pattern.type.text} does not support {entry.operation.text}"
        )
    if not pattern.name:
        raise InvalidAcl("Resource name should not be empty")
    if "/" in pattern.name:
        raise InvalidAcl("ACLs cannot be created for resources with names containing '/'")
    if pattern.type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise InvalidAcl(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    check_principal(entry.principal)


def check_principal(principal: str) -> None:
    """Raises InvalidAcl unless it has the form Type:name."""
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise InvalidAcl(
            f"Could not parse principal from `{principal}`: it must be Type:name, as User:alice"
        )


class AclSource(Protocol):
    """The ACLs that a decision is made from."""

    def patterns(
        self, type: ResourceType, name: str
    ) -> list[tuple[ResourcePattern, frozenset[Entry]]]:
        """The patterns that cover a resource, with their entries."""
        ...

    def of_type(self, type: ResourceType) -> list[tuple[ResourcePattern, frozenset[Entry]]]:
        """All patterns of a type, with their entries."""
        ...
