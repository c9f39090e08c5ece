"""The memory of responses with message sets: bounded over all connections.

Other responses have their records in the page cache's memory, however slowly a client reads. Those
to old clients are converted, so each takes memory of the process until its client has read it. The
more of them are unread, the fewer records the next one has; a few it always has, so that clients
which do read go on. TLS encrypts a response at once, and nothing says when the client has read it:
there each response has only those few.
"""

import weakref
from itertools import count
from typing import Final

# Of all responses that are not read yet, and of one of them.
MOST_UNREAD: Final = 32 * 1024 * 1024
MOST_CONVERTED: Final = 4 * 1024 * 1024
# A client has at least so much, or one record: sockets buffer that, with little left here.
LEAST_CONVERTED: Final = 64 * 1024
_SHARE: Final = 4


class Converted(bytearray):
    """A converted response; the object lives until the socket has taken all of it."""


class ConvertedResponses:
    """Counts the bytes of converted responses that live."""

    def __init__(self) -> None:
        self.unread = 0
        self.turns = count()  # each response begins with another partition

    def most(self, *, is_copied: bool) -> int:
        """The most bytes of the next response, but for its last record; few if the transport
        copies it.
        """
        if is_copied:
            return LEAST_CONVERTED
        spare = (MOST_UNREAD - self.unread) // _SHARE
        return max(LEAST_CONVERTED, min(MOST_CONVERTED, spare))

    def count(self, response: Converted) -> None:
        """Count a response for as long as anybody refers to it."""
        size = len(response)
        self.unread += size
        weakref.finalize(response, self._on_read, size).atexit = False

    def _on_read(self, size: int) -> None:
        self.unread -= size
