"""Responses straight to the socket, past the event loop."""

import asyncio
from typing import Final, cast

from barnabas.base.system_calls import send_parts as send_now
from barnabas.wire.fetch.fetch_codec import Buffer

__all__ = ["send_now", "unsent"]

# Below this, one buffer is sent sooner than several.
JOIN_BELOW: Final = 32 * 1024


def unsent(parts: list[Buffer], sent: int) -> list[Buffer]:
    """The rest of `parts` after the first `sent` bytes."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []


class SocketWriter:
    """Writes to one transport, past its buffer while that is empty."""

    __slots__ = ("_descriptor", "is_encrypted", "transport")

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by class, only by what they do.
        self.transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        self.is_encrypted = transport.get_extra_info("sslcontext") is not None
        is_plain = sock is not None and not self.is_encrypted
        self._descriptor = sock.fileno() if is_plain else -1

    def send(self, out: list[Buffer], size: int) -> None:
        """Let the socket accept what it can, and leave the rest to the loop."""
        transport = self.transport
        # A transport that closes may have given up the descriptor, and another have got it.
        if (
            self._descriptor >= 0
            and not transport.get_write_buffer_size()
            and not transport.is_closing()
        ):
            sent = send_now(self._descriptor, out)
            if sent == size:
                return
            out, size = unsent(out, sent), size - sent
        if len(out) == 1:
            transport.write(out[0])
        elif size <= JOIN_BELOW:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
