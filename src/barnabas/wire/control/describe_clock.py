"""DescribeClock (20001): a broker's wall clock, for the doctor.

Kafka has no such API. Its number is far from Kafka's own, and ApiVersions does not list it.
"""

from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import ERROR_CODE, INT64, Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClockRequest(Entity):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClockResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    time_ms: int = field(metadata=INT64)
    """Milliseconds since 1970, between the arrival of the request and the response."""
