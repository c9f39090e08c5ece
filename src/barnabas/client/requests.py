"""The asking side of the wire: requests to another broker, and what it answers."""

import struct

from barnabas.base.errors import BarnabasError
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import (
    UNREADABLE,
    Message,
    adapt,
    read_body,
    request_type,
    response_type,
    write_body,
)
from barnabas.wire.varint import skip_tags

_HEADER = struct.Struct(">ihhih")  # size, API, version, correlation id, length of the client id


class MalformedResponse(BarnabasError):
    """The bytes do not answer the request that was sent."""


def request_header(key: ApiKey, version: int, correlation_id: int, client_id: str) -> bytearray:
    """The beginning of a frame; its first four bytes are for its size, see `sized`."""
    name = client_id.encode()
    head = bytearray(_HEADER.pack(0, key, version, correlation_id, len(name)))
    head += name
    if version >= APIS[key].flexible:
        head += b"\0"
    return head


def sized(frame: bytearray) -> bytes:
    """The whole frame with its size in front."""
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    return bytes(frame)


def write_request(
    key: ApiKey, version: int, correlation_id: int, client_id: str, message: Message
) -> bytes:
    """The frame, size first, that asks `message`, given in any version, in this one."""
    body = write_body(request_type(key, version), message)
    return sized(request_header(key, version, correlation_id, client_id) + body)


def read_response(key: ApiKey, version: int, answer: memoryview) -> Message:
    """What `answer`, all that follows the correlation id, says; in the newest version served.

    Raises  MalformedResponse, if it is cut short or not of that API and version
    """
    # See `schema.write_response` on the one header that never has tags.
    tagged = version >= APIS[key].flexible and key is not ApiKey.API_VERSIONS
    try:
        body = answer[skip_tags(answer, 0) :] if tagged else answer
        sent = read_body(response_type(key, version), body)
    except UNREADABLE as e:
        raise MalformedResponse(f"{key.name} v{version}: {type(e).__name__} {e}".rstrip()) from e
    return adapt(sent, response_type(key, APIS[key].highest))
