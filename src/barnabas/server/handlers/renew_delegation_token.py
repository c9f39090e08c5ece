"""RenewDelegationToken (39): its owner or a renewer moves the expiry of a token."""

from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.token_access import move_expiry
from barnabas.wire.control.delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    broker: Broker, request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse:
    async def renew(principal: str) -> int:
        return await broker.tokens.renew(principal, request.hmac, request.renew_period_ms)

    return await move_expiry(call, renew, RenewDelegationTokenResponse)
