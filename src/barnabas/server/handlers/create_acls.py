"""CreateAcls (30): adds ACLs, each on its own; one that is there already is no error."""

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Acl
from barnabas.server.broker import Broker
from barnabas.server.requests.acl_messages import read_acl
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: CreateAclsRequest, _: Call) -> CreateAclsResponse:
    results: list[BrokerError | None] = [None] * len(request.creations)
    wanted: dict[int, Acl] = {}
    try:
        acls = broker.check_acls()
        for number, creation in enumerate(request.creations):
            try:
                wanted[number] = read_acl(creation)
            except BrokerError as e:
                results[number] = e
        for number, error in zip(wanted, await acls.create(list(wanted.values())), strict=True):
            results[number] = error
    except BrokerError as e:
        results = [e] * len(request.creations)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=tuple(map(_result, results)))


def _result(error: BrokerError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_code=ErrorCode.none, error_message=None)
    return AclCreationResult(error_code=error.code, error_message=error.message)
