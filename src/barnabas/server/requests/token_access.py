"""The checks of all requests about delegation tokens."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.principal import ANONYMOUS
from barnabas.server.requests.dispatch import Call

Response = TypeVar("Response")


def token_requester(call: Call) -> str:
    """The principal of a client that may ask about tokens.

    Raises  BrokerError, if nobody vouches for the client but itself, or another token
    """
    principal = call.connection.principal
    if principal.is_token or principal == ANONYMOUS:
        raise BrokerError(ErrorCode.delegation_token_request_not_allowed)
    return str(principal)


async def move_expiry(
    call: Call, move: Callable[[str], Awaitable[int]], respond: Callable[..., Response]
) -> Response:
    """The response with the expiry to which `move` has moved that of a token, for the requester."""
    try:
        expiry = await move(token_requester(call))
    except BrokerError as error:
        return respond(error_code=error.code)
    return respond(error_code=ErrorCode.none, expiry_timestamp_ms=expiry)


def principal_parts(principal: str) -> tuple[str, str]:
    """Type and name of `User:alice`."""
    kind, _, name = principal.partition(":")
    return kind, name
