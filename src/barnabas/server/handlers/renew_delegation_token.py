"""RenewDelegationToken (39): its owner or a renewer moves the expiry of a token."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.token_access import token_requester
from barnabas.wire.control.delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    broker: Broker, request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse:
    try:
        principal = token_requester(call)
        expiry = await broker.tokens.renew(principal, request.hmac, request.renew_period_ms)
    except BrokerError as error:
        return RenewDelegationTokenResponse(error_code=error.code)
    return RenewDelegationTokenResponse(error_code=ErrorCode.none, expiry_timestamp_ms=expiry)
