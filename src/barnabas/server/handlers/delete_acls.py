"""DeleteAcls (31): removes the ACLs that match any of several filters, and returns them."""

from collections.abc import Mapping

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Acl, AclFilter
from barnabas.server.broker import Broker
from barnabas.server.requests.acl_messages import read_filter
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

Deleted = Mapping[Acl, BrokerError | None]


async def handle(broker: Broker, request: DeleteAclsRequest, _: Call) -> DeleteAclsResponse:
    results: list[Deleted | BrokerError] = [{} for _ in request.filters]
    wanted: dict[int, AclFilter] = {}
    try:
        acls = broker.check_acls()
        for number, each in enumerate(request.filters):
            try:
                wanted[number] = read_filter(each)
            except BrokerError as e:
                results[number] = e
        for number, deleted in zip(wanted, await acls.delete(list(wanted.values())), strict=True):
            results[number] = deleted
    except BrokerError as e:
        results = [e] * len(request.filters)
    return DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=tuple(map(_result, results))
    )


def _result(result: Deleted | BrokerError) -> DeleteAclsFilterResult:
    if isinstance(result, BrokerError):
        return DeleteAclsFilterResult(
            error_code=result.code, error_message=result.message, matching_acls=()
        )
    return DeleteAclsFilterResult(
        error_code=ErrorCode.none,
        error_message=None,
        matching_acls=tuple(_matching(*each) for each in result.items()),
    )


def _matching(acl: Acl, error: BrokerError | None) -> DeleteAclsMatchingAcl:
    pattern, entry = acl
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
