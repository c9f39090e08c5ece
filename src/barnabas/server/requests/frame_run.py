"""The frames of one socket read, one after another in the receive buffer.

Compiled as it is: `frame_run.pxd` has the types.
"""

from barnabas.base import buffers
from barnabas.wire.fetch.fetch_codec import Buffer

_HEAD_SIZE = 12  # size, API and version, correlation id


class FrameRun:
    """The frames from `start` to `end` that are not served yet, and the responses so far.

    A frame is at most `most` bytes long, and its first `known` bytes say what serves it.
    """

    __slots__ = ("end", "known", "last_size", "most", "out", "queued", "served", "start", "view")

    view: memoryview
    start: int
    end: int
    most: int
    known: int
    served: int
    last_size: int
    out: list[Buffer]
    queued: int  # bytes in `out`

    def length_at(self, start: int) -> int:
        """The length of the frame that begins there; 0 unless it is whole and may be served."""
        if self.end - start < _HEAD_SIZE:
            return 0
        length = buffers.int_at(self.view, start)
        if length < self.known or length > self.most or start + 4 + length > self.end:
            return 0
        return length

    def is_alike(self, other: int) -> bool:
        """Return whether the frame there begins as the next one, but for its correlation id."""
        first = self.start
        return first == other or (
            buffers.are_equal(self.view, first + 4, other + 4, 4)
            and buffers.are_equal(self.view, first + 12, other + 12, self.known - 8)
        )

    def correlation_id(self) -> int:
        """That of the next frame."""
        return buffers.int_at(self.view, self.start + 8)

    def pass_over(self, length: int) -> None:
        """Count the next frame, of that length, as served."""
        self.start += 4 + length
        self.last_size = length
        self.served += 1

    def add(self, response: Buffer) -> None:
        self.out.append(response)
        self.queued += len(response)
