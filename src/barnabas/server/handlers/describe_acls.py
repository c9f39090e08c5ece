"""DescribeAcls (29): the ACLs that match a filter, by resource."""

from itertools import groupby

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Acl
from barnabas.server.broker import Broker
from barnabas.server.requests.acl_messages import read_filter
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


def handle(broker: Broker, request: DescribeAclsRequest, _: Call) -> DescribeAclsResponse:
    code, message, found = ErrorCode.none, None, list[Acl]()
    try:
        found = broker.check_acls().find(read_filter(request))
    except BrokerError as e:
        code, message = e.code, e.message
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        error_message=message,
        resources=tuple(
            DescribeAclsResource(
                resource_type=pattern.type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=tuple(
                    AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for _, entry in acls
                ),
            )
            for pattern, acls in groupby(found, key=lambda acl: acl.resource)
        ),
    )
