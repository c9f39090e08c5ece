"""What a connection needs of those around it: one that serves its requests, one that counts it."""

from typing import TYPE_CHECKING, Protocol

from barnabas.base.errors import LawBroken
from barnabas.server.requests.replies import Reply

if TYPE_CHECKING:
    from barnabas.server.network.connection import Connection


class Serve(Protocol):
    """Serves one whole frame (without its size). Does not suspend.

    Raises  BarnabasError, if the frame is not a request that can be answered: the
            connection is closed. LawBroken is a bug of ours and is not for clients.
    """

    def __call__(self, frame: memoryview, connection: "Connection", /) -> Reply: ...


class Registry(Protocol):
    """Counts connections: asked before one is served, told when it is over."""

    def admit(self, connection: "Connection") -> str | None:
        """None if the connection may stay, otherwise why not."""
        ...

    def lost(self, connection: "Connection") -> None: ...

    def fatal(self, broken: LawBroken) -> None: ...
