"""The znodes of delegation tokens and of their change notifications, as Kafka has them.

A token's node has no secret: its HMAC is computed from its id, by whoever knows the key.
"""

from typing import Final, NamedTuple

from barnabas.znodes.json_fields import integer, parsed, reading, text, to_json
from barnabas.znodes.paths import desanitized, sanitized

TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"
TOKEN_CHANGE: Final = f"{TOKEN_CHANGES}/token_change_"
_VERSION: Final = 3


class DelegationToken(NamedTuple):
    """A token; principals are written `User:alice`."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int  # nobody can renew it beyond
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return min(self.max_ms, self.expires_ms) < now_ms


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    return to_json(
        {
            "version": _VERSION,
            "owner": sanitized(token.owner),
            "tokenRequester": sanitized(token.requester),
            "renewers": [sanitized(each) for each in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.token_id,
        }
    )


def decode_token(path: str, data: bytes) -> DelegationToken:
    """Raises MalformedZnode. Before version 3 the owner is the requester."""
    with reading(path):
        fields = parsed(data)
        version = integer(fields["version"])
        if not 0 < version <= _VERSION:
            raise ValueError(f"version {version} is not 1 to {_VERSION}")
        owner = _principal(fields["owner"])
        return DelegationToken(
            text(fields["tokenId"]),
            owner,
            _principal(fields["tokenRequester"]) if version >= 3 else owner,
            tuple(_principal(each) for each in fields["renewers"]),
            integer(fields["issueTimestamp"]),
            integer(fields["maxTimestamp"]),
            integer(fields["expiryTimestamp"]),
        )


def _principal(value: object) -> str:
    principal = desanitized(text(value))
    if ":" not in principal:
        raise ValueError(f"{principal!r} is not Type:name")
    return principal
