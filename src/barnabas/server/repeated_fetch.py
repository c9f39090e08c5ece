"""Fetch again and again: what a consumer sends is the same request but for the offset."""

import struct
from collections.abc import Callable

from barnabas.base.ids import Offset
from barnabas.wire.fetch import Buffer
from barnabas.wire.fetch_single import SingleAnswer, SingleFetch

_LONG = struct.Struct(">q")

ServeSingle = Callable[[SingleFetch, SingleAnswer, Offset, int], list[Buffer] | None]


class RepeatedFetch:
    """Serves such requests for one partition."""

    __slots__ = ("_offset_at", "_ready", "_rest", "_serve", "_single")

    def __init__(
        self, single: SingleFetch, ready: SingleAnswer, frame: memoryview, serve: ServeSingle
    ) -> None:
        self._single = single
        self._ready = ready
        self._serve = serve
        self._offset_at = single.offset_at
        self._rest = bytes(frame[self._offset_at + 8 :])

    def __call__(self, frame: memoryview, correlation_id: int) -> list[Buffer] | None:
        """The answer, or None if the request takes the long way."""
        if bytes(frame[self._offset_at + 8 :]) != self._rest:
            return None
        (offset,) = _LONG.unpack_from(frame, self._offset_at)
        return self._serve(self._single, self._ready, offset, correlation_id)
