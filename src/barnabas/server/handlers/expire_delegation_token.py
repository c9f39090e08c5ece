"""ExpireDelegationToken (40): its owner or a renewer ends a token, now or after a period."""

from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.token_access import move_expiry
from barnabas.wire.control.delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    async def expire(principal: str) -> int:
        return await broker.tokens.expire(principal, request.hmac, request.expiry_time_period_ms)

    return await move_expiry(call, expire, ExpireDelegationTokenResponse)
