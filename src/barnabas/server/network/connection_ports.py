"""The collaborators of a connection: a server of its requests, a registry, an authentication."""

import asyncio
from typing import TYPE_CHECKING, Protocol

from barnabas.server.requests.replies import Reply

if TYPE_CHECKING:
    from barnabas.server.network.connection import Connection


class Serve(Protocol):
    """Serves one whole frame (without its size). Does not suspend.

    Raises  BarnabasError, if the frame is not a request that can be answered: the
            connection is closed. LawBroken is a bug of ours and is not for clients.
    """

    def __call__(self, frame: memoryview, connection: "Connection", /) -> Reply: ...


class Authentication(Protocol):
    """Names the principal of a connection, at once or after some frames."""

    def begin(self, connection: "Connection", transport: asyncio.BaseTransport, /) -> None:
        """The connection is made: name its principal, or serve its frames until that is known."""
        ...

    def end(self) -> None:
        """The connection is lost."""
        ...


class Registry(Protocol):
    """The open connections; see `open_connections`."""

    def admit(self, connection: "Connection") -> str | None:
        """None if the connection may stay, otherwise why not."""
        ...

    def lost(self, connection: "Connection") -> None: ...

    def log_once(self, connection: "Connection", message: str, *facts: object) -> None:
        """Log what a stranger may cause again and again; see `flood_log`."""
        ...

    def watch(self, connection: "Connection") -> None:
        """Close the connection if it stalls: it holds memory, or is about to."""
        ...
