"""TLS connections that misbehave, and many of them: memory stays bounded, others are served."""

import socket
import ssl
import struct
import threading
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.security.certificate_authority import CertificateAuthority
from tests.server.security.conftest import SecureBroker, StartBroker
from tests.server.security.test_sasl import SOON, frame, received, round_trip, text
from tests.server.security.test_tls import alice, resident
from tests.support.waiting import until

MB = 1024 * 1024
PARTITION_BYTES = 4 * MB
FETCHES = 400
API_VERSIONS = frame(18, 0, b"")


def connected(broker: SecureBroker) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(broker.certificates / "ca.pem"))
    sock = socket.create_connection(("127.0.0.1", broker.ports["SSL"]), SOON)
    return context.wrap_socket(sock, server_hostname="127.0.0.1")


def read_response(sock: ssl.SSLSocket) -> int:
    """Read exactly one response, and return its size."""
    (size,) = struct.unpack(">i", read_exactly(sock, 4))
    read_exactly(sock, size)
    return int(size)


def read_exactly(sock: ssl.SSLSocket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = sock.recv_into(view)
        assert count, "the broker closed the connection"
        view = view[count:]
    return bytes(data)


def fill(broker: SecureBroker) -> str:
    """A topic with `PARTITION_BYTES` of records in one partition."""
    topic = f"t-{uuid.uuid4()}"
    producer = Producer(alice(broker))
    for _ in range(PARTITION_BYTES // 100_000):
        producer.produce(topic, b"x" * 100_000)
    assert producer.flush(SOON) == 0
    return topic


def fetch(topic: str, most: int) -> bytes:
    """Fetch version 4 of partition 0 from offset 0."""
    head = struct.pack(">iiiib", -1, 100, 1, most, 0)
    partition = struct.pack(">iiqi", 1, 0, 0, most)
    return frame(1, 4, head + struct.pack(">i", 1) + text(topic) + partition)


def test_a_client_that_does_not_read_makes_the_broker_buffer_little(
    start_secure: StartBroker,
) -> None:
    broker = start_secure({})
    topic = fill(broker)
    with connected(broker) as warm:
        warm.sendall(fetch(topic, PARTITION_BYTES))
        assert read_response(warm) > PARTITION_BYTES // 2
    before = resident(broker.process.pid)
    with connected(broker) as lazy:
        lazy.sendall(fetch(topic, PARTITION_BYTES) * FETCHES)  # 1.6 GB of responses
        round_trip(alice(broker))  # meanwhile others are served
        assert resident(broker.process.pid) - before < 64 * MB
        for _ in range(5):
            assert read_response(lazy) > PARTITION_BYTES // 2
        assert resident(broker.process.pid) - before < 64 * MB


def test_a_client_that_closes_its_half_ends_the_connection_and_nothing_else(
    secure_broker: SecureBroker,
) -> None:
    with connected(secure_broker) as sock:
        sock.sendall(API_VERSIONS)
        assert received(sock)
        sock.shutdown(socket.SHUT_WR)  # without close_notify: cut off
        assert sock.recv(1) == b""
    with connected(secure_broker) as sock:
        sock.sendall(API_VERSIONS)
        assert received(sock)
        sock.unwrap().close()  # with close_notify in both directions
    round_trip(alice(secure_broker))
    assert "Traceback" not in secure_broker.process.log()


def test_s41_a_handshake_counts_as_a_connection_from_its_beginning(
    start_secure: StartBroker,
) -> None:
    broker = start_secure({"max.connections": "2"})
    address = ("127.0.0.1", broker.ports["SSL"])
    with ExitStack() as stack:
        half = [stack.enter_context(socket.create_connection(address, SOON)) for _ in range(2)]
        with pytest.raises(OSError, match=r"EOF|reset|closed"):
            connected(broker)
        until(lambda: "max.connections=2 is reached" in broker.process.log(), "the log", SOON)
        half.pop().close()
        served = stack.enter_context(until(lambda: connected(broker), "a connection", SOON))
        served.sendall(API_VERSIONS)
        assert received(served)
        half.pop().close()
        # A handshake that has ended well counts once.
        second = stack.enter_context(until(lambda: connected(broker), "a connection", SOON))
        second.sendall(API_VERSIONS)
        assert received(second)


@pytest.mark.parametrize("record_bytes", [7, 1_000, 20_000])
def test_requests_in_tls_records_of_any_size_are_served(
    secure_broker: SecureBroker, record_bytes: int
) -> None:
    client_id = b"c" * 9_000
    body = struct.pack(">hhih", 18, 0, 1, len(client_id)) + client_id
    requests = (struct.pack(">i", len(body)) + body) * 3
    with connected(secure_broker) as sock:
        for start in range(0, len(requests), record_bytes):
            sock.sendall(requests[start : start + record_bytes])
        for _ in range(3):
            assert read_response(sock)
        sock.sendall(API_VERSIONS[:9])
        sock.sendall(API_VERSIONS[9:])
        assert read_response(sock)


def test_a_request_is_served_wherever_its_last_record_is_cut(secure_broker: SecureBroker) -> None:
    client_id = b"c" * 12_000
    body = struct.pack(">hhih", 18, 0, 1, len(client_id)) + client_id
    request = struct.pack(">i", len(body)) + body
    context = ssl.create_default_context(cafile=str(secure_broker.certificates / "ca.pem"))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    address = ("127.0.0.1", secure_broker.ports["SSL"])
    with socket.create_connection(address, SOON) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def exchange(step: Callable[[], Any]) -> Any:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    sock.sendall(outgoing.read())
                    incoming.write(sock.recv(65536))

        exchange(tls.do_handshake)
        sock.sendall(outgoing.read())
        for cut in range(100, 12_000, 700):
            tls.write(request[:100])
            sock.sendall(outgoing.read())
            tls.write(request[100:])
            record = outgoing.read()
            sock.sendall(record[:cut])
            sock.sendall(record[cut:])
            assert exchange(lambda: tls.read(65536))


@pytest.mark.long
def test_an_idle_connection_over_tls_costs_less_than_96_kb(start_secure: StartBroker) -> None:
    broker = start_secure({})
    count = 300
    with ExitStack() as stack:
        for _ in range(20):  # what the first ones cost is not theirs
            stack.enter_context(connected(broker)).sendall(API_VERSIONS)
        before = resident(broker.process.pid)
        for _ in range(count):
            sock = stack.enter_context(connected(broker))
            sock.sendall(API_VERSIONS)
            assert received(sock)
        assert (resident(broker.process.pid) - before) / count < 96 * 1024


@pytest.mark.long
def test_s6_certificates_are_replaced_under_load_and_no_request_fails(
    start_secure: StartBroker, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    authority = CertificateAuthority.create(own)
    authority.issue("broker", ["127.0.0.1"])
    stores = {
        "ssl.keystore.location": str(own / "broker.pem"),
        "ssl.truststore.location": str(own / "ca.pem"),
    }
    started = start_secure(stores)
    broker = SecureBroker(started.process, started.ports, own)
    failures: list[object] = []
    enough = threading.Event()

    def produce() -> None:
        producer = Producer({**broker.librdkafka("SSL"), "message.timeout.ms": "60000"})
        while not enough.is_set():
            producer.produce(
                "load", b"v", on_delivery=lambda error, _: failures.append(error) if error else None
            )
            producer.poll(0.001)
        assert producer.flush(SOON) == 0

    def served() -> bytes | None:
        with connected(broker) as sock:
            return sock.getpeercert(True)

    def is_replaced(before: bytes | None) -> bool:
        return served() != before

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        for _ in range(2):
            before = served()
            authority.issue("broker", ["127.0.0.1"])
            until(partial(is_replaced, before), "the new certificate", SOON)
            with connected(broker) as sock:
                assert not sock.session_reused
    finally:
        enough.set()
        thread.join(SOON)
    assert failures == []
