"""Responses straight to the socket, past the event loop."""

from barnabas.base.system_calls import send_parts as send_now
from barnabas.wire.fetch.fetch_codec import Buffer

__all__ = ["send_now", "unsent"]


def unsent(parts: list[Buffer], sent: int) -> list[Buffer]:
    """The rest of `parts` behind the first `sent` bytes."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []
