"""What to say of bytes that cannot be the size of a frame."""

import struct
from typing import Final

_SIZE = struct.Struct(">i")
# What the first bytes of other protocols look like, taken for a frame's size.
_TLS_HANDSHAKE: Final = 0x16
_HTTP: Final = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI "})


def bad_size(size: int, limit: int) -> str:
    """Why a frame of this size is refused."""
    first = _SIZE.pack(size)
    if first[0] == _TLS_HANDSHAKE:
        return "a TLS handshake on a listener without TLS"
    if first in _HTTP:
        return "an HTTP request, not a Kafka request"
    if size < 0:
        return f"frame size {size} is negative: not a Kafka request"
    return f"frame size {size} exceeds socket.request.max.bytes={limit}"
