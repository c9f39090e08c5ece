"""Requests that begin like one before: served by the shortcut remembered of that one, in a row.

A client sends the same request again and again but for its correlation id and what follows the
names: records, or an offset. So all before that is compared, not read. Compiled as it is:
`fast_path.pxd` has the types.
"""

from typing import Final, Protocol

from barnabas.base import buffers
from barnabas.disk import open_file
from barnabas.server.requests.frame_run import FrameRun
from barnabas.server.requests.replies import Pending
from barnabas.wire.fetch.fetch_codec import Buffer

# Answers are sent when there is this much of them, also if more requests are there to be served.
SEND_AT: Final = 256 * 1024
_SEND_AT = SEND_AT


class Shortcut(Protocol):
    """Serves frames whose beginning is known already."""

    def serve_run(self, run: FrameRun, /) -> Pending | None:
        """Serve the next frame of the run, and those behind it that are alike.

        Return the reply to the last that was served, if it has to be waited for. Serve none if
        the next frame takes the long way.
        """


# By what follows the correlation id: API and version, and what serves such a frame.
Shortcuts = dict[bytes, tuple[int, Shortcut]]
# Where the next frame begins, how many were served, and the size of the last; the bytes of
# answers there are now, and the reply that has to be waited for.
Served = tuple[int, int, int, int, Pending | None]


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

    Their answers go to `out`, which holds `queued` bytes already. It ends at a frame that is not
    whole, larger than `most`, not known or in need of the long way, and when enough is to be sent.
    """
    open_file.look_again()
    run = FrameRun()
    run.view = view
    run.start = start
    run.end = end
    run.most = most
    run.known = size
    run.served = run.last_size = 0
    run.out = out
    run.queued = queued
    while run.queued < _SEND_AT and run.length_at(run.start):
        at = run.start
        known = shortcuts.get(buffers.bytes_at(view, at + 12, at + 4 + size))
        if known is None:
            break
        api_and_version, shortcut = known
        if api_and_version != buffers.int_at(view, at + 4):
            break
        pending = shortcut.serve_run(run)
        if pending is not None:
            return run.start, run.served, run.last_size, run.queued, pending
        if run.start == at:
            break
    return run.start, run.served, run.last_size, run.queued, None
