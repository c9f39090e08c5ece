"""The checks of all requests about delegation tokens."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.principal import ANONYMOUS
from barnabas.server.requests.dispatch import Call


def token_requester(call: Call) -> str:
    """The principal of a client that may ask about tokens.

    Raises  BrokerError, if nobody vouches for the client but itself, or another token
    """
    principal = call.connection.principal
    if principal.is_token or principal == ANONYMOUS:
        raise BrokerError(ErrorCode.delegation_token_request_not_allowed)
    return str(principal)


def principal_parts(principal: str) -> tuple[str, str]:
    """Type and name of `User:alice`."""
    kind, _, name = principal.partition(":")
    return kind, name
