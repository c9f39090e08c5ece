"""The states of a connection, as one table."""

import enum
from collections.abc import Mapping
from typing import Final


class ConnectionState(enum.Enum):
    """The state of a connection; requests of the client are served in SERVING alone."""

    NEW = enum.auto()  # not connected yet
    SERVING = enum.auto()
    BLOCKED = enum.auto()  # the client does not read its responses: no request is served
    CLOSING = enum.auto()  # responses that are written leave, then the socket closes
    CLOSED = enum.auto()


class ConnectionEvent(enum.Enum):
    CONNECTED = enum.auto()
    WRITES_FULL = enum.auto()  # more responses are buffered than the transport wants
    WRITES_DRAINED = enum.auto()
    CLOSE = enum.auto()  # we close, for any reason
    LOST = enum.auto()


S, E = ConnectionState, ConnectionEvent

# In this state, this event leads there. A pair that is absent is a bug of ours, or the loop's.
NEXT: Final[Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]]] = {
    S.NEW: {E.CONNECTED: S.SERVING, E.CLOSE: S.CLOSED},
    S.SERVING: {
        E.WRITES_FULL: S.BLOCKED,
        E.WRITES_DRAINED: S.SERVING,
        E.CLOSE: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.BLOCKED: {
        E.WRITES_FULL: S.BLOCKED,
        E.WRITES_DRAINED: S.SERVING,
        E.CLOSE: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.CLOSING: {
        E.WRITES_FULL: S.CLOSING,
        E.WRITES_DRAINED: S.CLOSING,
        E.CLOSE: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.CLOSED: {E.WRITES_FULL: S.CLOSED, E.WRITES_DRAINED: S.CLOSED, E.CLOSE: S.CLOSED},
}
