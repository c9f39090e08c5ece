"""DescribeController (20000): what the controller has in mind, for an operator to look at.

Kafka has no such API. Its number is far from Kafka's own, and ApiVersions never tells of it.
"""

from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import ERROR_CODE, STRING, Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeControllerRequest(Entity):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeControllerResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    state: str = field(metadata=STRING)
    """JSON text, or nothing if there is an error."""
