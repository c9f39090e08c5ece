"""The response to a Fetch of one partition that found records.

Compiled as it is: `single_answer.pxd` has the types.
"""

import struct
import uuid

from barnabas.base import buffers
from barnabas.wire.fetch.fetch_codec import (
    FLEXIBLE,
    Buffer,
    PartitionFetched,
    TopicFetched,
    write_fetch,
)


class SingleAnswer:
    """A response that is ready but for its numbers.

    `head` lies between the correlation id and the longs, `longs` bytes of them; `middle` between
    these and the size of the records, which is a varint if there is a `tail`.
    """

    __slots__ = ("_at", "_longs", "_tail", "_template")

    def __init__(self, head: bytes, longs: int, middle: bytes, tail: bytes) -> None:
        self._template = bytes(8) + head + bytes(longs) + middle
        self._at = 8 + len(head)
        self._longs = longs
        self._tail = tail

    def response(
        self,
        correlation_id: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records: Buffer,
    ) -> list[Buffer]:
        """The frame, size first, as buffers to be sent one after another."""
        parts: list[Buffer] = []
        self.add(
            parts, correlation_id, high_watermark, last_stable_offset, log_start_offset, records
        )
        return parts

    def add(
        self,
        parts: list[Buffer],
        correlation_id: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records: Buffer,
    ) -> int:
        """Append the buffers of the frame to `parts`; return their size."""
        size = len(records)
        sized = buffers.uvarint(size + 1) if self._tail else size.to_bytes(4, "big")
        total = len(self._template) + len(sized) + size + len(self._tail)
        parts.append(
            buffers.filled(
                self._template,
                total - 4,
                correlation_id,
                self._at,
                self._longs,
                high_watermark,
                last_stable_offset,
                log_start_offset,
                sized,
            )
        )
        parts.append(records)
        if self._tail:
            parts.append(self._tail)
        return total


def single_answer(
    version: int, topic: str | uuid.UUID, partition: int, read_committed: bool
) -> SingleAnswer:
    """The response to fetches of this partition in this version."""
    aborted = () if read_committed else None
    empty = PartitionFetched(partition, 0, -1, -1, -1, aborted=aborted)
    name, topic_id = (topic, None) if isinstance(topic, str) else (None, topic)
    (whole,) = map(bytes, write_fetch(version, 0, [TopicFetched(name, topic_id, [empty])]))
    longs = 24 if version >= 5 else 16
    numbers = struct.pack(">ih", partition, 0) + b"\xff" * longs
    at = whole.rindex(numbers) + 6
    # An empty answer ends with the size of no records and, if flexible, thrice with no tags:
    # four bytes either way.
    tail = whole[-3:] if version >= FLEXIBLE else b""
    return SingleAnswer(whole[8:at], longs, whole[at + longs : -4], tail)
