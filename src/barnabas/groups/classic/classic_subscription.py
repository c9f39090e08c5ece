"""The topics in the metadata that a consumer joins a classic group with.

The broker relays the metadata, but must not expire or delete offsets that are in use. Every version
begins as version 0 does: a version, and the names of the topics.
"""

import struct
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> list[str]:
    """Raises  ValueError, if the metadata is not a consumer's."""
    try:
        version, count = _HEAD.unpack_from(metadata)
        if version < 0 or count < 0:
            raise ValueError(f"version {version} with {count} topics")
        topics, position = [], _HEAD.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            end = position + _LENGTH.size + length
            if length < 0 or end > len(metadata):
                raise ValueError(f"a topic name of {length} bytes at {position}")
            topics.append(metadata[position + _LENGTH.size : end].decode())
            position = end
    except struct.error as short:
        raise ValueError(f"metadata ends early: {short}") from short
    return topics
