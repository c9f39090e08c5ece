"""The memory of requests that are received: bounded over all connections by
queued.max.request.bytes.

Theory of operation. Each connection has a first buffer for small requests, which is not counted.
A request that needs more asks for it in steps, as its bytes arrive. Beyond the limit a connection
waits: the broker stops reading from it. Small requests and large ones wait in two lanes, each in
order of arrival, and large ones leave the last quarter of the memory to the small ones. Requests
that are half received could hold all memory and wait for each other. So in each lane one of them
is excepted: it is read to its end, whatever the others hold. The memory in use is thus at most the
limit, one small request and one large one, and what lies behind requests that are still read.
"""

from collections import deque
from typing import Final, Protocol

# A Produce request of one full batch is small.
SMALL_REQUEST: Final = 2 * 1024 * 1024
UNLIMITED: Final = 2**62


class RequestReceiver(Protocol):
    """A connection that receives a request."""

    def on_granted(self, size: int) -> None:
        """Read on: the memory that it waited for is granted. Nothing may be served in this call."""


class _Lane:
    """The requests of one kind that wait, and the one that is excepted from the limit."""

    __slots__ = ("excepted", "limit", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.excepted: RequestReceiver | None = None
        self.waiting: deque[tuple[RequestReceiver, int]] = deque()


class RequestMemory:
    """Counts the bytes of receive buffers beyond the first buffer of each connection.

    `is_short` while more than half is taken or somebody waits: then no buffer is larger than its
    request needs, and none is kept for the next one.
    """

    __slots__ = ("_large", "_small", "is_short", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit if limit > 0 else UNLIMITED
        self.taken = 0
        self.is_short = False
        self._small = _Lane(self.limit)
        self._large = _Lane(self.limit // 4 * 3)

    @property
    def waiting(self) -> int:
        """How many connections wait for memory."""
        return len(self._small.waiting) + len(self._large.waiting)

    def take_to_read_ahead(self, size: int) -> bool:
        """Count a larger buffer for requests that follow each other; False if memory is short."""
        if self.is_short:
            return False
        self.count(size)
        return True

    def count(self, size: int) -> None:
        """Count `size` bytes more, whatever the limit: they are received already."""
        self.taken += size
        self.is_short = 2 * self.taken > self.limit or self.waiting > 0

    def take(self, receiver: RequestReceiver, size: int, request: int) -> bool:
        """Count `size` more bytes for a request of `request` bytes in all.

        Returns False if the receiver has to wait: `on_granted` is called, unless `leave` is before.
        """
        lane = self._small if request <= SMALL_REQUEST else self._large
        is_next = lane.excepted is receiver or not lane.waiting
        if is_next and self._grant(lane, receiver, size):
            return True
        lane.waiting.append((receiver, size))
        self.is_short = True
        return False

    def give_back(self, receiver: RequestReceiver, size: int) -> None:
        """The request is served, or gone with its connection."""
        for lane in (self._small, self._large):
            if lane.excepted is receiver:
                lane.excepted = None
        self.count(-size)
        self._wake()

    def leave(self, receiver: RequestReceiver) -> None:
        """The connection is lost, and does not wait any more."""
        for lane in (self._small, self._large):
            lane.waiting = deque(each for each in lane.waiting if each[0] is not receiver)

    def _grant(self, lane: _Lane, receiver: RequestReceiver, size: int) -> bool:
        if self.taken + size > lane.limit:
            if lane.excepted is None:
                lane.excepted = receiver
            if lane.excepted is not receiver:
                return False
        self.count(size)
        return True

    def _wake(self) -> None:
        for lane in (self._small, self._large):
            while lane.waiting:
                receiver, size = lane.waiting[0]
                if not self._grant(lane, receiver, size):
                    break
                lane.waiting.popleft()
                receiver.on_granted(size)
        self.count(0)
