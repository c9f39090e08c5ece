"""The states of authentication on a SASL listener, as one table."""

import enum
from collections.abc import Mapping
from typing import Final


class AuthenticationState(enum.Enum):
    """The next frame that the client may send."""

    INITIAL = "Initial"  # ApiVersions or SaslHandshake
    VERSIONS_GIVEN = "VersionsGiven"  # SaslHandshake
    TOKENS = "Tokens"  # SaslAuthenticate
    BARE_TOKENS = "BareTokens"  # a token without a header, after SaslHandshake version 0
    AUTHENTICATED = "Authenticated"  # any request
    EXPIRED = "Expired"  # SaslHandshake: the session is over
    FAILED = "Failed"  # nothing: the connection closes


class AuthenticationEvent(enum.Enum):
    VERSIONS = "ApiVersions"
    HANDSHAKE = "SaslHandshake"
    HANDSHAKE_V0 = "SaslHandshake v0"
    CHALLENGED = "challenged"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SESSION_OVER = "session over"


S, E = AuthenticationState, AuthenticationEvent

# In this state, this event leads there. A pair that is absent is a bug of ours: frames of clients
# are judged before they become events.
NEXT: Final[Mapping[AuthenticationState, Mapping[AuthenticationEvent, AuthenticationState]]] = {
    S.INITIAL: {
        E.VERSIONS: S.VERSIONS_GIVEN,
        E.HANDSHAKE: S.TOKENS,
        E.HANDSHAKE_V0: S.BARE_TOKENS,
        E.REFUSED: S.FAILED,
    },
    S.VERSIONS_GIVEN: {
        E.HANDSHAKE: S.TOKENS,
        E.HANDSHAKE_V0: S.BARE_TOKENS,
        E.REFUSED: S.FAILED,
    },
    S.TOKENS: {
        E.CHALLENGED: S.TOKENS,
        E.ACCEPTED: S.AUTHENTICATED,
        E.REFUSED: S.FAILED,
        E.SESSION_OVER: S.TOKENS,
    },
    S.BARE_TOKENS: {
        E.CHALLENGED: S.BARE_TOKENS,
        E.ACCEPTED: S.AUTHENTICATED,
        E.REFUSED: S.FAILED,
        E.SESSION_OVER: S.BARE_TOKENS,
    },
    S.AUTHENTICATED: {
        E.HANDSHAKE: S.TOKENS,
        E.HANDSHAKE_V0: S.BARE_TOKENS,
        E.SESSION_OVER: S.EXPIRED,
        E.REFUSED: S.FAILED,
    },
    S.EXPIRED: {E.HANDSHAKE: S.TOKENS, E.HANDSHAKE_V0: S.BARE_TOKENS, E.REFUSED: S.FAILED},
    S.FAILED: {E.SESSION_OVER: S.FAILED},
}
