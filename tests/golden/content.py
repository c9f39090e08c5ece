"""Keys and values as the golden JSON writes them."""

import hashlib
from base64 import b64encode
from typing import Final

_LONG: Final = 100


def content(data: bytes | None) -> str | None:
    """Bytes as base64; long ones as their hash."""
    if data is None:
        return None
    if len(data) > _LONG:
        return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:16]}"
    return b64encode(data).decode()
