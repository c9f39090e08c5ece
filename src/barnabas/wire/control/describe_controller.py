"""DescribeController (20000): the controller's state, for operators.

Kafka has no such API. Its number is far from Kafka's own, and ApiVersions does not list it.
"""

from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import ERROR_CODE, LONG_STRING, Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeControllerRequest(Entity):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeControllerResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    state: str = field(metadata=LONG_STRING)
    """JSON text, or nothing if there is an error."""
