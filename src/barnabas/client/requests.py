"""Kafka's messages on the client's side: requests written and responses read by their schemas."""

import io
from collections.abc import Callable
from functools import cache

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from barnabas.client.frames import MalformedResponse, request_header, sized
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.bounds import bounded
from barnabas.wire.schema import Message, adapt, request_type, response_type
from barnabas.wire.varint import Truncated, skip_tags


def write_request(
    key: ApiKey, version: int, correlation_id: int, client_id: str, message: Message
) -> bytes:
    """The frame, size first, of `message`, given in any version, in this one."""
    target = request_type(key, version)
    out = io.BytesIO()
    entity_writer(target)(out, adapt(message, target))
    return sized(request_header(key, version, correlation_id, client_id) + out.getbuffer())


def read_response(key: ApiKey, version: int, response: memoryview) -> Message:
    """The message in `response`, all that follows the correlation id; in our newest version.

    Raises  MalformedResponse, if it is cut short or not of that API and version
    """
    # See `schema.write_response` on the one header that never has tags.
    tagged = version >= APIS[key].flexible and key is not ApiKey.API_VERSIONS
    try:
        body = response[skip_tags(response, 0) :] if tagged else response
        body = bounded(response_type(key, version), body)
        sent = _reader(key, version)(body.toreadonly(), 0)[0]
    except (SerialError, Truncated, ValueError, OverflowError) as e:
        raise MalformedResponse(f"{key.name} v{version}: {type(e).__name__} {e}".rstrip()) from e
    return adapt(sent, response_type(key, APIS[key].highest))


@cache
def _reader(key: ApiKey, version: int) -> Callable[[memoryview, int], tuple[Message, int]]:
    return entity_reader(response_type(key, version))
