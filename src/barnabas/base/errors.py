"""The errors of Barnabas, by who can act on them.

    BarnabasError
    ├── BrokerError      a client or operator can act on it; carries Kafka's error code
    ├── DiskFault        a log directory failed; the broker takes it offline
    ├── PeerGone         the other side of a connection went away
    ├── ConfigError      a property has a value it cannot have
    └── LawBroken        a bug of ours; the process stops and recovers from its log

A BrokerError becomes an error code in one place, the handler that answers;
all others become events for their owner, by the failure channel or by an exception.
"""

from barnabas.base.kio_quietly import ErrorCode

__all__ = [
    "BarnabasError",
    "BrokerError",
    "ConfigError",
    "DiskFault",
    "ErrorCode",
    "LawBroken",
    "PeerGone",
]


class BarnabasError(Exception):
    """The root of every error that this package raises on purpose."""


class BrokerError(BarnabasError):
    """A request cannot be served, for a reason that Kafka has a code for."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class DiskFault(BarnabasError):
    """Reading or writing a log directory failed; it is not used until the next start."""

    def __init__(self, log_dir: str, cause: OSError) -> None:
        super().__init__(f"{log_dir}: {cause.strerror or cause}")
        self.log_dir = log_dir
        self.cause = cause


class PeerGone(BarnabasError):
    """The other side closed the connection, or never answered."""


class ConfigError(BarnabasError):
    """A property is set to what it cannot be; the message names property, value and remedy."""


class LawBroken(BarnabasError):
    """An invariant of docs/laws.md does not hold. Never caught below the process."""
