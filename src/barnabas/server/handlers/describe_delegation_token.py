"""DescribeDelegationToken (41): the tokens that the client owns, asked for or may renew, and those
it has a right to see; all of them, or those of some owners.
"""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.token_access import principal_parts, token_requester
from barnabas.wire.control.delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    TokenPrincipal,
)
from barnabas.znodes.token_layout import DelegationToken


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    try:
        requester = token_requester(call)
        owners = (
            None
            if request.owners is None
            else {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
        )
        found = broker.tokens.describe(
            lambda token: _is_wanted(token, owners) and _may_see(token, requester, call.access)
        )
    except BrokerError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.none, tokens=tuple(_described(broker, token) for token in found)
    )


def _is_wanted(token: DelegationToken, owners: set[str] | None) -> bool:
    return owners is None or not owners.isdisjoint(_own(token))


def _may_see(token: DelegationToken, requester: str, access: Access) -> bool:
    return (
        requester in _own(token)
        or access.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or access.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _own(token: DelegationToken) -> tuple[str, ...]:
    return (token.owner, token.requester, *token.renewers)


def _described(broker: Broker, token: DelegationToken) -> DescribedDelegationToken:
    owner_type, owner_name = principal_parts(token.owner)
    requester_type, requester_name = principal_parts(token.requester)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=broker.tokens.cache.hmac(token.token_id),
        renewers=tuple(
            TokenPrincipal(principal_type=kind, principal_name=name)
            for kind, name in map(principal_parts, token.renewers)
        ),
    )
