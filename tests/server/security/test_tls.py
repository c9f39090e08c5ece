"""TLS on a real broker: who gets in, who does not, and what half a handshake costs."""

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.security import AuthenticationFailed, SecurityContext
from barnabas.security.certificate_authority import STORE_PASSWORD, CertificateAuthority
from barnabas.server.network.sending import SocketWriter
from tests.server.security.conftest import SecureBroker, StartBroker
from tests.server.security.test_sasl import SOON, round_trip
from tests.support.waiting import until


def alice(broker: SecureBroker) -> dict[str, str]:
    pem = str(broker.certificates / "alice.pem")
    return broker.librdkafka("SSL", ssl_certificate_location=pem, ssl_key_location=pem)


def connect(broker: SecureBroker, properties: Mapping[str, str], host: str = "127.0.0.1") -> None:
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(broker.certificates / "ca.pem"),
        **properties,
    }
    connection = BlockingConnection.connect(
        host,
        broker.ports["SSL"],
        client_id="test",
        connect_s=SOON,
        response_s=SOON,
        security=SecurityContext.of(settings),
    )
    try:
        connection.versions()
    finally:
        connection.close()


def test_s4_librdkafka_writes_and_reads_over_tls(secure_broker: SecureBroker) -> None:
    round_trip(alice(secure_broker))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_s4_both_versions_are_served(secure_broker: SecureBroker, version: str) -> None:
    connect(secure_broker, {"ssl.enabled.protocols": version})


def test_s5_our_client_reads_pkcs12_stores(secure_broker: SecureBroker) -> None:
    connect(
        secure_broker,
        {
            "ssl.keystore.location": str(secure_broker.certificates / "alice.p12"),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.truststore.location": str(secure_broker.certificates / "ca.p12"),
            "ssl.truststore.password": STORE_PASSWORD,
        },
    )


def test_a_foreign_ca_is_refused_by_the_client(secure_broker: SecureBroker, tmp_path: Path) -> None:
    foreign = CertificateAuthority.create(tmp_path / "foreign")
    with pytest.raises(AuthenticationFailed, match="certificate"):
        connect(secure_broker, {"ssl.truststore.location": str(foreign.certificate_file)})


def test_s4_a_missing_or_foreign_client_certificate_is_refused_by_the_broker(
    start_secure: StartBroker, tmp_path: Path
) -> None:
    broker = start_secure(
        {
            "ssl.client.auth": "required",
        }
    )
    connect(broker, {"ssl.keystore.location": str(broker.certificates / "alice.pem")})
    foreign = CertificateAuthority.create(tmp_path / "foreign").issue("mallory")
    for settings in ({}, {"ssl.keystore.location": str(foreign.pem)}):
        with pytest.raises(Exception, match=r"TLS|closed|broke|went away"):
            connect(broker, settings)
    errors: list[Any] = []
    callback: Any = errors.append
    client = AdminClient({**broker.librdkafka("SSL"), "error_cb": callback, "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1.0)


def test_s6_a_renewed_certificate_is_served_without_a_restart(
    start_secure: StartBroker, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    authority = CertificateAuthority.create(own)
    authority.issue("broker", ["127.0.0.1"])
    stores = {
        "ssl.keystore.location": str(own / "broker.pem"),
        "ssl.truststore.location": str(own / "ca.pem"),
    }
    broker = start_secure(stores)

    def served() -> bytes:
        context = ssl.create_default_context(cafile=str(own / "ca.pem"))
        sock = socket.create_connection(("127.0.0.1", broker.ports["SSL"]), SOON)
        with context.wrap_socket(sock, server_hostname="127.0.0.1") as wrapped:
            certificate = wrapped.getpeercert(True)
        assert certificate is not None
        return certificate

    first = served()
    authority.issue("broker", ["127.0.0.1"])
    until(lambda: served() != first, "the new certificate", SOON)
    authority.issue("broker", ["elsewhere.example.org"])
    trusted = {"ssl.truststore.location": str(own / "ca.pem")}

    def is_refused() -> bool:
        try:
            connect(broker, trusted)
        except AuthenticationFailed as failed:
            return "certificate is not valid for" in str(failed)
        return False

    until(is_refused, "another host name to be refused", SOON)
    connect(broker, trusted | {"ssl.endpoint.identification.algorithm": ""})


@pytest.mark.parametrize("half", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_half_a_handshake_costs_little_and_ends_in_bounded_time(
    start_secure: StartBroker, half: int
) -> None:
    broker = start_secure({"barnabas.authentication.timeout.ms": "4000"})
    connect(broker, {})
    before = resident(broker.process.pid)
    hello = client_hello()
    waiting = []
    try:
        for number in range(half):
            sock = socket.create_connection(("127.0.0.1", broker.ports["SSL"]), SOON)
            sock.sendall(hello[: len(hello) // 2] if number % 2 else hello)
            waiting.append(sock)
        connect(broker, {})
        used = resident(broker.process.pid) - before
        assert used < half * 64 * 1024, f"{used // half} bytes a connection"
        for sock in waiting:
            until_closed(sock)
    finally:
        for sock in waiting:
            sock.close()
    connect(broker, {})


def client_hello() -> bytes:
    context, incoming, outgoing = ssl.create_default_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def until_closed(sock: socket.socket) -> None:
    sock.settimeout(SOON)
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_the_descriptor_of_a_tls_socket_is_never_written_to(certificates: Path) -> None:
    class Recorded(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.writer = SocketWriter(transport)
            descriptors.append(self.writer._descriptor)
            self.writer.send([b"hello"], 5)

    descriptors: list[int] = []

    async def serve() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "broker.pem")
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Recorded, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        trusted = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        read = await reader.readexactly(5)
        writer.close()
        server.close()
        return read

    import uvloop

    for run in (asyncio.run, uvloop.run):
        assert run(serve()) == b"hello"
    assert descriptors == [-1, -1]
