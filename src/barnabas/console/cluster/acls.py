"""ACLs: read from the cluster, and the question why a principal may do something, or not.

The rule is Kafka's StandardAuthorizer's: a deny that matches wins, then an allow; with neither
nobody may, unless the broker says otherwise or the principal is a super user, which no API reports.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.client.metadata import fields
from barnabas.console.cluster.console_client import ConsoleClient, check
from barnabas.console.cluster.extra_apis import DESCRIBE_ACLS, ask_any

RESOURCES: Final = {2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 7: "User"}
PATTERNS: Final = {3: "literal", 4: "prefixed"}
OPERATIONS: Final = {
    2: "All",
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
}
PERMISSIONS: Final = {2: "Deny", 3: "Allow"}
_ANY: Final = 1
_IMPLYING: Final = {
    "Describe": ("Read", "Write", "Delete", "Alter"),
    "DescribeConfigs": ("AlterConfigs",),
}


class ListedAcl(NamedTuple):
    """One ACL, in Kafka's words."""

    resource: str
    name: str
    pattern: str
    principal: str
    permission: str
    operation: str
    host: str

    def __str__(self) -> str:
        kind = "" if self.pattern == "literal" else f"{self.pattern} "
        where = "any host" if self.host == "*" else self.host
        return (
            f"{self.permission} {self.principal} {self.operation} on {kind}{self.resource}"
            f" {self.name} from {where}"
        )


class AclVerdict(NamedTuple):
    """The decision, and the sentence that explains it."""

    is_allowed: bool
    why: str
    acls: list[ListedAcl]


async def read_acls(client: ConsoleClient) -> list[ListedAcl]:
    request = fields(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = await ask_any(client, DESCRIBE_ACLS, request)
    check(answer, "the ACLs")
    return sorted(
        ListedAcl(
            RESOURCES.get(resource.resource_type, str(resource.resource_type)),
            resource.resource_name,
            PATTERNS.get(resource.pattern_type, str(resource.pattern_type)),
            each.principal,
            PERMISSIONS.get(each.permission_type, str(each.permission_type)),
            OPERATIONS.get(each.operation, str(each.operation)),
            each.host,
        )
        for resource in answer.resources
        for each in resource.acls
    )


def decide_access(
    acls: Iterable[ListedAcl],
    principal: str,
    operation: str,
    resource: str,
    name: str,
    host: str = "*",
) -> AclVerdict:
    """Why may, or may not, this principal do this?"""
    matching = [
        acl
        for acl in acls
        if acl.resource == resource
        and acl.principal in (principal, "User:*")
        and (acl.host in ("*", host) or host == "*")
        and _names(acl, name)
    ]
    denied = [
        acl for acl in matching if acl.permission == "Deny" and acl.operation in (operation, "All")
    ]
    if denied:
        return AclVerdict(False, "An ACL denies it, and a deny wins over every allow.", denied)
    enough = (operation, "All", *_IMPLYING.get(operation, ()))
    allowed = [acl for acl in matching if acl.permission == "Allow" and acl.operation in enough]
    if allowed:
        implied = "" if allowed[0].operation in (operation, "All") else ", which implies it"
        return AclVerdict(True, f"An ACL allows {allowed[0].operation}{implied}.", allowed)
    why = (
        "No ACL allows it. Super users may all the same, and so may everybody on a resource"
        " without ACLs if the brokers have allow.everyone.if.no.acl.found=true."
    )
    return AclVerdict(False, why, [])


def _names(acl: ListedAcl, name: str) -> bool:
    if acl.pattern == "prefixed":
        return name.startswith(acl.name)
    return acl.name in (name, "*")
