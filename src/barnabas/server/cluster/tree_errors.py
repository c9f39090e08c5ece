"""Error codes for requests that need the coordination tree, which may not answer, or refuse."""

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.znodes.tree import ConnectionLoss, InvalidPath, SessionExpired


@contextmanager
def coordinating() -> Iterator[None]:
    """Turns a lost tree into a code that clients retry on, a failed disk into its own, and a name
    that no znode can have, such as `..`, into that of an invalid request.
    """
    try:
        yield
    except DiskFault as fault:
        raise BrokerError(ErrorCode.kafka_storage_error, str(fault)) from fault
    except InvalidPath as refused:
        raise BrokerError(ErrorCode.invalid_request, str(refused)) from refused
    except (ConnectionLoss, SessionExpired) as lost:
        raise BrokerError(
            ErrorCode.request_timed_out, f"the coordination service does not respond: {lost}"
        ) from lost
