"""Hand-made requests for what no client offers: sending a batch again."""

import socket
from collections.abc import Sequence
from struct import Struct
from typing import Final

from tests.support.clients import PATIENCE_S

_PRODUCE: Final = (0, 7)
_INIT_PRODUCER_ID: Final = (22, 0)
_NULL: Final = b"\xff\xff"

_HEADER = Struct(">hhih")  # API key, version, correlation id, length of the client id: null
_SIZE = Struct(">i")
_ACKS_AND_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">iii")  # count, partition, size of the records
_PRODUCED = Struct(">iihq")  # count, partition, error, base offset
_PRODUCER_ID = Struct(">ihqh")  # throttle time, error, producer id, epoch


class RawConnection:
    """One connection, one request at a time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def init_producer_id(self) -> tuple[int, int]:
        """A producer id and its epoch."""
        body = self._ask(_INIT_PRODUCER_ID, _NULL + _SIZE.pack(60_000))
        _, error, producer_id, epoch = _PRODUCER_ID.unpack_from(body)
        assert error == 0
        return producer_id, epoch

    def produce(self, topic: str, batch: bytes | bytearray) -> tuple[int, int]:
        """Send one batch to partition 0 with acks=all; return error code and base offset."""
        return self.produce_all(topic, [batch])[0]

    def produce_all(
        self, topic: str, batches: Sequence[bytes | bytearray]
    ) -> list[tuple[int, int]]:
        """Send a request for each batch, all at once; as `produce`."""
        name = len(topic).to_bytes(2, "big") + topic.encode()
        head = _NULL + _ACKS_AND_TIMEOUT.pack(-1, 30_000) + _SIZE.pack(1) + name
        sent = [_frame(_PRODUCE, head + _PARTITION.pack(1, 0, len(b)) + b) for b in batches]
        self._socket.sendall(b"".join(sent))
        answers = [self._receive() for _ in batches]
        return [_PRODUCED.unpack_from(each, _SIZE.size + len(name))[2:4] for each in answers]

    def _ask(self, api: tuple[int, int], body: bytes) -> bytes:
        self._socket.sendall(_frame(api, body))
        return self._receive()

    def _receive(self) -> bytes:
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        return self._read(size)[_SIZE.size :]  # after the correlation id

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            read = self._socket.recv(size - len(data))
            assert read, "the broker closed the connection"
            data += read
        return data


def _frame(api: tuple[int, int], body: bytes) -> bytes:
    request = _HEADER.pack(*api, 1, -1) + body
    return _SIZE.pack(len(request)) + request
