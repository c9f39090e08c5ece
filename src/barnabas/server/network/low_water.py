"""The low-water mark of a TLS connection: how much must have arrived before the broker reads on.

Librdkafka sends a TLS record for each message or two. Without a mark the first of them wakes up the
broker, which is busy with it while the next ones come one by one. While a part of a request is
missing, the mark tells the kernel not to wake up the broker before that part is there.

The part is counted in decrypted bytes, so as many bytes or more are still to come, unless the
beginning of the next TLS record was read with the last one and could not be decrypted yet. Less
than the mark may follow then. Therefore the mark leaves out one record as small as the last small
read, and ends when nothing was read for one to two milliseconds. Then the client may be one that
sends a large record behind a small one, as Java clients do: it has no mark for a while. Clients
whose records are all large never have one.
"""

import asyncio
import socket
from typing import Final

# A receive buffer of 48 KB is still open then, and beyond it a mark saves little.
HIGHEST: Final = 16 * 1024
# A client that sends less at once while a request is not whole sends small records.
SMALL_READ: Final = 4 * 1024
_CHECKED_EVERY_S: Final = 0.001
# Reads without a mark after one that was too high. Of the reads of small records this is a moment.
READS_WITHOUT: Final = 1_000


class LowWater:
    """The low-water mark of one socket."""

    __slots__ = (
        "_begins_at",
        "_check",
        "_loop",
        "_mark",
        "_reads",
        "_reads_checked",
        "_small",
        "_socket",
    )

    def __init__(self, accepted: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = accepted
        self._loop = loop
        self._mark = 1
        self._small = 0  # the size of the last small read
        self._reads = self._reads_checked = 0
        self._begins_at = 0  # reads; before that there is no mark
        self._check: asyncio.TimerHandle | None = None

    def after_read(self, size: int, missing: int) -> None:
        """Set the mark after a read of `size` bytes; `missing` are the bytes that the next request
        lacks, if its beginning is received.
        """
        self._reads += 1
        if missing and size < SMALL_READ and self._reads > self._begins_at:
            self._small = size
        if not self._small:
            return
        mark = max(1, min(missing - self._small, HIGHEST))
        if mark != self._mark:
            self._set(mark)

    def _set(self, mark: int) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        except OSError:
            return  # it is closed
        self._mark = mark
        if mark > 1 and self._check is None:
            self._check_later()

    def _check_later(self) -> None:
        self._reads_checked = self._reads
        self._check = self._loop.call_later(_CHECKED_EVERY_S, self._end_if_quiet)

    def _end_if_quiet(self) -> None:
        self._check = None
        if self._mark == 1:
            return
        if self._reads == self._reads_checked:
            self._small, self._begins_at = 0, self._reads + READS_WITHOUT
            self._set(1)  # whatever has arrived is read at once
        else:
            self._check_later()

    def close(self) -> None:
        if self._check is not None:
            self._check.cancel()
