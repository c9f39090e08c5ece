"""Any request of the schemas to a broker, and its response."""

import socket
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final

from barnabas.client.requests import read_response, write_request
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import adapt, request_type

ANSWER_WITHIN_S: Final = 10.0
_SIZE = Struct(">i")


def parts(**fields: Any) -> Any:
    """A part of a request; missing fields have Kafka's default."""
    return SimpleNamespace(**fields)


def ask(
    port: int,
    key: ApiKey,
    /,
    version: int | None = None,
    within_s: float = ANSWER_WITHIN_S,
    **fields: Any,
) -> Any:
    """The response of the broker at a port of 127.0.0.1, in the newest version.

    Raises  OSError without a response
    """
    version = APIS[key].highest if version is None else version
    message = adapt(parts(**fields), request_type(key, version))
    with socket.create_connection(("127.0.0.1", port), within_s) as connection:
        connection.sendall(write_request(key, version, 1, "test", message))
        (size,) = _SIZE.unpack(_read(connection, _SIZE.size))
        return read_response(key, version, memoryview(_read(connection, size))[4:])


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the broker closed the connection")
        data += part
    return data
