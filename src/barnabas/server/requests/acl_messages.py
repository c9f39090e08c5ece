"""ACLs and filters of ACLs in requests."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from barnabas.wire.schema import Message


def read_filter(sent: Message) -> AclFilter:
    """Raises BrokerError for a number that means nothing, or that filters nothing."""
    try:
        wanted = AclFilter(
            ResourceType(sent.resource_type_filter),
            sent.resource_name_filter,
            PatternType(sent.pattern_type_filter),
            sent.principal_filter,
            sent.host_filter,
            Operation(sent.operation),
            Permission(sent.permission_type),
        )
    except ValueError as e:
        raise BrokerError(ErrorCode.invalid_request, f"The filter is unknown: {e}") from None
    unknown = (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)
    if 0 in unknown:
        raise BrokerError(ErrorCode.invalid_request, "The filter contains UNKNOWN elements.")
    return wanted


def read_acl(sent: Message) -> Acl:
    """Raises BrokerError for a number that means nothing; `check_acl` judges the rest."""
    try:
        return Acl(
            ResourcePattern(
                ResourceType(sent.resource_type),
                sent.resource_name,
                PatternType(sent.resource_pattern_type),
            ),
            Entry(
                sent.principal,
                sent.host,
                Operation(sent.operation),
                Permission(sent.permission_type),
            ),
        )
    except ValueError as e:
        raise BrokerError(ErrorCode.invalid_request, f"The ACL is unknown: {e}") from None
