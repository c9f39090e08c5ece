"""ExpireDelegationToken (40): its owner or a renewer ends a token, now or after a period."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.token_access import token_requester
from barnabas.wire.control.delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    try:
        principal = token_requester(call)
        expiry = await broker.tokens.expire(principal, request.hmac, request.expiry_time_period_ms)
    except BrokerError as error:
        return ExpireDelegationTokenResponse(error_code=error.code)
    return ExpireDelegationTokenResponse(error_code=ErrorCode.none, expiry_timestamp_ms=expiry)
