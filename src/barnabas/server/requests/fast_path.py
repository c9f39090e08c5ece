"""Requests that begin like one before: served by what was remembered of that one, in a row.

A client sends the same request again and again but for its correlation id and what follows the
names: records, or an offset. So all before that is only compared, not read.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.base.twins import use_compiled
from barnabas.server.requests.replies import Pending, Reply
from barnabas.wire.fetch.fetch_codec import Buffer

# Answers are sent when there is this much of them, also if more requests are there to be served.
SEND_AT: Final = 256 * 1024
_HEAD = struct.Struct(">iii")  # size, API and version, correlation id


class Shortcut(Protocol):
    """Serves a frame whose beginning is known already; None if it needs the long way after all."""

    def __call__(self, frame: memoryview, correlation_id: int, /) -> Reply: ...


# By what follows the correlation id: API and version, and what serves such a frame.
Shortcuts = Mapping[bytes, tuple[int, Shortcut]]


class Served(NamedTuple):
    """How far one came: where the next frame begins, how many were served, and of what size
    the last was; how many bytes of answers there are now, and what has to be waited for."""

    start: int
    served: int
    last_size: int
    queued: int
    pending: Pending | None


def serve_known(
    view: memoryview,
    start: int,
    end: int,
    most: int,
    shortcuts: Shortcuts,
    size: int,
    out: list[Buffer],
    queued: int,
) -> Served:
    """Serve whole frames from `start` on while each is known by its first `size` bytes.

    Their answers go to `out`, where `queued` bytes are already. It ends at a frame that is not
    whole, larger than `most`, not known or in need of the long way, and when enough is to be sent.
    """
    count = last_size = 0
    while end - start >= 12 and queued < SEND_AT:
        length, api_and_version, correlation_id = _HEAD.unpack_from(view, start)
        after = start + 4 + length
        if not size <= length <= most or after > end:
            break
        known = shortcuts.get(bytes(view[start + 12 : start + 4 + size]))
        if known is None or known[0] != api_and_version:
            break
        reply = known[1](view[start + 4 : after], correlation_id)
        if reply is None:
            break
        start = after
        last_size = length
        count += 1
        if type(reply) is bytes:
            out.append(reply)
            queued += len(reply)
        elif type(reply) is list:
            out += reply
            queued += sum(map(len, reply))
        else:
            assert isinstance(reply, Pending)
            return Served(start, count, last_size, queued, reply)
    return Served(start, count, last_size, queued, None)


use_compiled(globals(), "barnabas.server.requests._fast_path", "serve_known")
