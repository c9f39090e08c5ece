"""Answers straight to the socket: what it takes at once need not pass through the event loop."""

import os
from typing import Final

from barnabas.base.twins import use_compiled
from barnabas.wire.fetch.fetch_codec import Buffer

# No call may get more (IOV_MAX of Linux).
MOST_PARTS: Final = 1024


def send_now(descriptor: int, parts: list[Buffer]) -> int:
    """Send as much as the socket takes without waiting; tells how many bytes that was.

    None, if the connection is broken: the event loop finds that out by itself.
    """
    try:
        return os.writev(descriptor, parts[:MOST_PARTS])
    except OSError:
        return 0


use_compiled(globals(), "barnabas.server.network._sending", "send_now")


def unsent(parts: list[Buffer], sent: int) -> list[Buffer]:
    """What is left of `parts` behind so many bytes."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []
