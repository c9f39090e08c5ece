"""The quota on changes of topics (KIP-599), as one request uses it up.

From the version that knows THROTTLING_QUOTA_EXCEEDED on, a change beyond the quota is refused;
before, it is made, and the client is throttled.
"""

from typing import Any

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE, duration


class Mutations:
    """Takes tokens of the client's bucket for each partition that is created or deleted."""

    def __init__(self, call: Call, strict_since: int) -> None:
        self._bucket = None if call.meters is None else call.meters.mutations
        self._strict = call.version >= strict_since
        self._connection = call.connection

    def take(self, partitions: int) -> None:
        """Raises BrokerError(throttling_quota_exceeded), nothing taken, beyond a strict quota."""
        if self._bucket is not None and not self._bucket.try_take(
            partitions, self._connection.now(), strict=self._strict
        ):
            raise BrokerError(
                ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
            )

    def throttle_time(self) -> Any:
        """How long the client is throttled; a permissive quota stops reading, too."""
        ms = 0 if self._bucket is None else self._bucket.throttle_ms(self._connection.now())
        if ms:
            self._connection.throttle(ms)
        return duration(ms) if ms else NO_THROTTLE
