"""Create-, Renew-, Expire- and DescribeDelegationToken (38 to 41).

kio has these messages, but it does not read the timestamps of Kafka's errors, which are -1.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import (
    BYTES,
    DURATION,
    ERROR_CODE,
    INT64,
    STRING,
    Entity,
    since,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrincipal(Entity):
    """An owner or a renewer of tokens."""

    principal_type: str = field(metadata=STRING)
    principal_name: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenRequest(Entity):
    owner_principal_type: str | None = field(metadata=since(3, STRING), default=None)
    owner_principal_name: str | None = field(metadata=since(3, STRING), default=None)
    renewers: tuple[TokenPrincipal, ...]
    max_lifetime_ms: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    principal_type: str = field(metadata=STRING)
    principal_name: str = field(metadata=STRING)
    token_requester_principal_type: str = field(metadata=since(3, STRING), default="")
    token_requester_principal_name: str = field(metadata=since(3, STRING), default="")
    issue_timestamp_ms: int = field(metadata=INT64, default=-1)
    expiry_timestamp_ms: int = field(metadata=INT64, default=-1)
    max_timestamp_ms: int = field(metadata=INT64, default=-1)
    token_id: str = field(metadata=STRING, default="")
    hmac: bytes = field(metadata=BYTES, default=b"")
    throttle_time: timedelta = field(metadata=DURATION, default=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenRequest(Entity):
    hmac: bytes = field(metadata=BYTES)
    renew_period_ms: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    expiry_timestamp_ms: int = field(metadata=INT64, default=-1)
    throttle_time: timedelta = field(metadata=DURATION, default=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenRequest(Entity):
    hmac: bytes = field(metadata=BYTES)
    expiry_time_period_ms: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    expiry_timestamp_ms: int = field(metadata=INT64, default=-1)
    throttle_time: timedelta = field(metadata=DURATION, default=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenRequest(Entity):
    owners: tuple[TokenPrincipal, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedDelegationToken(Entity):
    principal_type: str = field(metadata=STRING)
    principal_name: str = field(metadata=STRING)
    token_requester_principal_type: str = field(metadata=since(3, STRING), default="")
    token_requester_principal_name: str = field(metadata=since(3, STRING), default="")
    issue_timestamp: int = field(metadata=INT64)
    expiry_timestamp: int = field(metadata=INT64)
    max_timestamp: int = field(metadata=INT64)
    token_id: str = field(metadata=STRING)
    hmac: bytes = field(metadata=BYTES)
    renewers: tuple[TokenPrincipal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time: timedelta = field(metadata=DURATION, default=timedelta(0))
