"""CreateDelegationToken (38): a token for the client, or for another owner (version 3 and up)."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.security.principal import USER
from barnabas.server.broker import Broker
from barnabas.server.requests.access import check
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.token_access import principal_parts, token_requester
from barnabas.wire.control.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


async def handle(
    broker: Broker, request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse:
    requester = str(call.connection.principal)
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or USER}:{request.owner_principal_name}"
    try:
        return await _create(broker, request, call, owner)
    except BrokerError as error:
        return _response(error.code, owner, requester)


async def _create(
    broker: Broker, request: CreateDelegationTokenRequest, call: Call, owner: str
) -> CreateDelegationTokenResponse:
    requester = token_requester(call)
    if owner != requester:
        check(call.access, Operation.CREATE_TOKENS, ResourceType.USER, owner)
    if any(each.principal_type != USER for each in request.renewers):
        raise BrokerError(ErrorCode.invalid_principal_type)
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in request.renewers]
    token = await broker.tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    return _response(
        ErrorCode.none,
        owner,
        requester,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=broker.tokens.cache.hmac(token.token_id),
    )


def _response(
    code: ErrorCode, owner: str, requester: str, **token: object
) -> CreateDelegationTokenResponse:
    owner_type, owner_name = principal_parts(owner)
    requester_type, requester_name = principal_parts(requester)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        **token,  # type: ignore[arg-type]  # times, id and HMAC, by their names
    )
