"""The low-water mark of a TLS connection: fewer reads of small records, no request that waits."""

import asyncio
import random
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Iterator

import pytest

from barnabas.server.network.low_water import HIGHEST, READS_WITHOUT, SMALL_READ, LowWater
from tests.server.security.conftest import SecureBroker
from tests.server.security.test_sasl import SOON, frame

if sys.platform != "linux":
    pytest.skip("only Linux has low-water marks", allow_module_level=True)

LARGEST_RECORD = 16 * 1024


class Marked:
    """A connection over loopback whose receiving end has a mark."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.sender = socket.create_connection(server.getsockname(), SOON)
            self.receiver, _ = server.accept()
        self.loop = asyncio.new_event_loop()
        self.mark = LowWater(self.receiver, self.loop)

    def low_water(self) -> int:
        return self.receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)

    def wakes_up(self, within_s: float = 0.0) -> bool:
        return bool(select.select([self.receiver], [], [], within_s)[0])

    def close(self) -> None:
        self.mark.close()
        self.loop.close()
        self.sender.close()
        self.receiver.close()


@pytest.fixture
def marked() -> Iterator[Marked]:
    connection = Marked()
    yield connection
    connection.close()


def test_a_request_in_small_records_wakes_the_broker_up_when_nearly_all_of_it_is_there(
    marked: Marked,
) -> None:
    marked.mark.after_read(100, missing=1000)
    marked.sender.sendall(bytes(899))
    assert not marked.wakes_up(0.05)
    marked.sender.sendall(b"!")  # 900: another record of 100 bytes may be half read already
    assert marked.wakes_up(SOON)


def test_a_mark_ends_when_nothing_is_read_for_a_while(marked: Marked) -> None:
    marked.mark.after_read(100, missing=1000)
    marked.sender.sendall(bytes(10))
    assert not marked.wakes_up(0.05)
    marked.loop.run_until_complete(asyncio.sleep(0.05))
    assert marked.wakes_up(SOON)
    marked.receiver.recv(10)


def test_a_client_whose_mark_was_too_high_has_none_for_a_while(marked: Marked) -> None:
    """A small record and then a large one, as Java clients send them, are not held up each time."""
    marked.mark.after_read(100, missing=16_000)
    marked.loop.run_until_complete(asyncio.sleep(0.05))
    for _ in range(READS_WITHOUT):
        marked.mark.after_read(100, missing=16_000)
        assert marked.low_water() == 1
    marked.mark.after_read(100, missing=16_000)
    assert marked.low_water() == 15_900


def test_a_mark_stays_while_there_are_reads(marked: Marked) -> None:
    marked.mark.after_read(100, missing=1000)
    time.sleep(0.002)  # the check is due
    marked.mark.after_read(100, missing=900)
    marked.loop.call_soon(marked.loop.stop)
    marked.loop.run_forever()
    assert marked.low_water() == 800


def test_a_whole_request_has_no_mark_and_a_large_one_a_limited_one(marked: Marked) -> None:
    marked.mark.after_read(100, missing=10_000_000)
    assert marked.low_water() == HIGHEST
    marked.mark.after_read(16_000, missing=0)
    assert marked.low_water() == 1


def test_a_client_with_large_records_is_read_as_it_comes(marked: Marked) -> None:
    marked.mark.after_read(SMALL_READ, missing=100_000)
    marked.sender.sendall(b"!")
    assert marked.wakes_up(SOON)


def test_a_socket_that_is_closed_gets_no_mark(marked: Marked) -> None:
    marked.receiver.close()
    marked.mark.after_read(100, missing=1000)


class Segments:
    """A TLS client that decides which ciphertext goes into which segment."""

    def __init__(self, broker: SecureBroker) -> None:
        context = ssl.create_default_context(cafile=str(broker.certificates / "ca.pem"))
        self._incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self.outgoing, server_hostname="127.0.0.1")
        self.sock = socket.create_connection(("127.0.0.1", broker.ports["SSL"]), SOON)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.sock.sendall(self.outgoing.read())
                self._incoming.write(self.sock.recv(65536))
        self.sock.sendall(self.outgoing.read())

    def encrypt(self, data: bytes, record: int) -> bytes:
        for at in range(0, len(data), record):
            self._tls.write(data[at : at + record])
        return self.outgoing.read()

    def response(self) -> bytes:
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
            try:
                data += self._tls.read(65536)
            except ssl.SSLWantReadError:
                more = self.sock.recv(65536)
                assert more, "the broker closed the connection"
                self._incoming.write(more)
        return data


def api_versions(number: int, software: int) -> bytes:
    """ApiVersions 3 whose client has a name of so many bytes, and no other."""
    name = b"x" * software
    length = bytes([(software + 1) & 0x7F | 0x80, (software + 1) >> 7 & 0x7F | 0x80])
    length += bytes([software + 1 >> 14])
    return frame(18, 3, b"\0" + length + name + b"\x021\0", number)


@pytest.mark.parametrize("seed", range(20))
def test_every_request_is_answered_wherever_its_records_and_segments_end(
    secure_broker: SecureBroker, seed: int
) -> None:
    """The last record of a request may come in two segments with nothing behind it."""
    rng = random.Random(seed)
    client = Segments(secure_broker)
    with client.sock:
        for number in range(20):
            request = api_versions(number, rng.randrange(5000, 30_000))
            data = client.encrypt(request, rng.choice([1, 7, 100, 1000, 5000, LARGEST_RECORD]))
            cuts = sorted(rng.sample(range(1, len(data)), rng.randrange(1, 12)))
            if rng.random() < 0.5:
                cuts.append(len(data) - rng.randrange(1, 30))
            at = 0
            for cut in [*sorted(set(cuts)), len(data)]:
                client.sock.sendall(data[at:cut])
                at = cut
            assert client.response()[4:8] == struct.pack(">i", number)
