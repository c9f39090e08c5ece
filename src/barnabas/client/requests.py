"""Kafka's messages on the client's side: requests written and responses read by their schemas."""

from barnabas.client.frames import MalformedResponse, request_header, sized
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


def write_request(
    key: ApiKey, version: int, correlation_id: int, client_id: str, message: Message
) -> bytes:
    """The frame, size first, of `message`, given in any version, in this one."""
    body = write_body(request_type(key, version), message)
    return sized(request_header(key, version, correlation_id, client_id) + body)


def read_response(key: ApiKey, version: int, response: memoryview) -> Message:
    """The message in `response`, all that follows the correlation id; in our newest version.

    Raises  MalformedResponse, if it is cut short or not of that API and version
    """
    return adapt(read_as_sent(key, version, response), response_type(key, APIS[key].highest))


def read_as_sent(key: ApiKey, version: int, response: memoryview) -> Message:
    """The same, in the version that was sent.

    Raises  MalformedResponse
    """
    # See `schema.write_response` on the one header that never has tags.
    tagged = version >= APIS[key].flexible and key is not ApiKey.API_VERSIONS
    try:
        body = response[skip_tags(response, 0) :] if tagged else response
        return read_body(response_type(key, version), body)
    except UNREADABLE as e:
        raise MalformedResponse(f"{key.name} v{version}: {type(e).__name__} {e}".rstrip()) from e
