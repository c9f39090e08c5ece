"""The decision of Kafka's AclAuthorizer, and the rule that it rests on.

In this order: a super user may do everything; where no ACL is for the resource,
`allow.everyone.if.no.acl.found` decides; an ACL that denies wins over all that allow; an ACL that
allows is needed. Allowing READ, WRITE, DELETE or ALTER allows DESCRIBE, and allowing ALTER_CONFIGS
allows DESCRIBE_CONFIGS; denying implies nothing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.security.acls import (
    IMPLIED_BY,
    WILDCARD,
    Acl,
    AclSource,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


class Rules(NamedTuple):
    """The properties of the authorizer."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


class AclDecision(NamedTuple):
    """The verdict on an operation, its reason, and the ACL that decided, if one did."""

    allowed: bool
    reason: str
    acl: Acl | None = None


class Question(NamedTuple):
    """An operation of a principal at a host on a resource."""

    principal: str
    host: str
    operation: Operation
    type: ResourceType
    name: str


def decide(question: Question, source: AclSource, rules: Rules) -> AclDecision:
    """Kafka's decision about one resource."""
    principal, host, operation, type_, name = question
    if principal in rules.super_users:
        return AclDecision(True, "the principal is a super user (super.users)")
    found = [
        Acl(pattern, entry)
        for pattern, entries in source.patterns(type_, name)
        for entry in entries
    ]
    if not found:
        allowed = rules.allow_everyone_if_no_acl_found
        value = "true" if allowed else "false"
        return AclDecision(
            allowed, f"no ACL is for the resource (allow.everyone.if.no.acl.found={value})"
        )
    denying = _first(found, principal, host, Permission.DENY, frozenset({operation}))
    if denying is not None:
        return AclDecision(False, "an ACL denies it", denying)
    enough = IMPLIED_BY.get(operation, frozenset({operation}))
    allowing = _first(found, principal, host, Permission.ALLOW, enough)
    if allowing is not None:
        return AclDecision(True, "an ACL allows it", allowing)
    return AclDecision(False, "no ACL allows it")


def decide_by_type(
    principal: str,
    host: str,
    operation: Operation,
    type_: ResourceType,
    source: AclSource,
    rules: Rules,
) -> bool:
    """True if the operation is allowed on at least one resource of the type, existing or not.

    An ACL that allows counts unless one that denies covers all that it allows.
    """
    if principal in rules.super_users:
        return True
    names: dict[tuple[Permission, PatternType], set[str]] = {
        (permission, pattern_type): set()
        for permission in (Permission.DENY, Permission.ALLOW)
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    }
    for pattern, entries in source.of_type(type_):
        for entry in entries:
            is_meant = entry.operation in (operation, Operation.ALL)
            if is_meant and entry.is_for(principal, host):
                names[entry.permission, pattern.pattern_type].add(pattern.name)
    denied = names[Permission.DENY, PatternType.LITERAL]
    if WILDCARD in denied:
        return False
    if rules.allow_everyone_if_no_acl_found:
        return True
    prefixes = names[Permission.DENY, PatternType.PREFIXED]
    allowed = names[Permission.ALLOW, PatternType.LITERAL]
    return (
        WILDCARD in allowed
        or any(name not in denied and not _is_covered(name, prefixes) for name in allowed)
        or any(
            not _is_covered(name, prefixes)
            for name in names[Permission.ALLOW, PatternType.PREFIXED]
        )
    )


def _is_covered(name: str, prefixes: Iterable[str]) -> bool:
    return any(name.startswith(prefix) for prefix in prefixes)


def _first(
    acls: Sequence[Acl],
    principal: str,
    host: str,
    permission: Permission,
    operations: frozenset[Operation],
) -> Acl | None:
    for acl in acls:
        entry = acl.entry
        if (
            entry.permission is permission
            and (entry.operation in operations or entry.operation is Operation.ALL)
            and entry.is_for(principal, host)
        ):
            return acl
    return None
