"""Error codes for requests that need the coordination tree while it does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.znodes.tree import ConnectionLoss, SessionExpired


@contextmanager
def coordinating() -> Iterator[None]:
    """Turns a lost tree into a code that clients retry on, and a failed disk into its own."""
    try:
        yield
    except DiskFault as fault:
        raise BrokerError(ErrorCode.kafka_storage_error, str(fault)) from fault
    except (ConnectionLoss, SessionExpired) as lost:
        raise BrokerError(
            ErrorCode.request_timed_out, f"the coordination service does not respond: {lost}"
        ) from lost
