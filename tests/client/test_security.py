"""TLS and SASL of connections, blocking and on an event loop, with a server that knows them."""

import asyncio
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from barnabas.base.errors import ConfigError, PeerGone
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.connection import AsyncConnection, fetched_token
from barnabas.client.security import AuthenticationFailed, SecurityContext
from tests.client.scram_server import ScramServer

SOON = 20.0
PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="ann" password="s\\"3c";',
}
# Connects with these properties, sends one frame and returns its response.
Ask = Callable[[int, dict[str, str]], bytes]
Serve = Callable[..., int]


def _frame(correlation_id: int) -> bytes:
    return struct.pack(">ihhih", 10, 3, 12, correlation_id, 0)


def _blocking(port: int, properties: dict[str, str]) -> bytes:
    connection = BlockingConnection.connect(
        "localhost",
        port,
        client_id="test",
        connect_s=SOON,
        response_s=SOON,
        security=SecurityContext.of(properties),
    )
    try:
        return bytes(connection.exchange(_frame))
    finally:
        connection.close()


async def _asking(port: int, properties: dict[str, str]) -> bytes:
    connection = await AsyncConnection.connect(
        "localhost",
        port,
        client_id="test",
        timeout_s=SOON,
        security=SecurityContext.of(properties),
    )
    try:
        return bytes(await connection.exchange(_frame, SOON))
    finally:
        connection.close()


@pytest.fixture(params=["blocking", "asyncio", "uvloop"])
def ask(request: pytest.FixtureRequest) -> Ask:
    if request.param == "blocking":
        return _blocking
    run: Any = asyncio.run if request.param == "asyncio" else uvloop.run
    return lambda port, properties: bytes(run(_asking(port, properties)))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Answer one connection: `serve(talk, context)` gives the port; `talk` gets the socket."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(talk: Callable[["Client"], None], context: ssl.SSLContext | None = None) -> int:
        listener = socket.create_server(("localhost", 0))

        def work() -> None:
            try:
                connection, _ = listener.accept()
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                with connection:
                    talk(Client(connection))
            except OSError:
                pass  # the client does not trust us, and went

        listeners.append(listener)
        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.close()
    for thread in threads:
        thread.join(30)


class Client:
    """A broker's end of a connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.asked: list[tuple[int, bytes]] = []
        self._correlation_id = 0

    def receive(self) -> bytes:
        """The body of the next request."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        api, _, self._correlation_id, length = struct.unpack_from(">hhih", frame)
        self.asked.append((api, frame[10 + length :]))
        return frame[10 + length :]

    def answer(self, body: bytes) -> None:
        self.connection.sendall(struct.pack(">ii", 4 + len(body), self._correlation_id) + body)

    def accept_handshake(self) -> None:
        self.receive()
        self.answer(struct.pack(">hi", 0, 0))

    def token(self) -> bytes:
        return self.receive()[4:]

    def answer_token(self, token: bytes) -> None:
        self.answer(struct.pack(">hhi", 0, -1, len(token)) + token + bytes(8))

    def answer_request(self) -> None:
        self.receive()
        self.answer(b"fine")

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self.connection.recv(size - len(data))
            if not received:
                raise OSError("cut short")
            data += received
        return data


# -- SASL --------------------------------------------------------------------


def test_plain_sends_user_and_password(ask: Ask, serve: Serve) -> None:
    asked: list[tuple[int, bytes]] = []

    def talk(client: Client) -> None:
        client.accept_handshake()
        client.token()
        client.answer_token(b"")
        asked.extend(client.asked)  # before the response lets the test go on
        client.answer_request()

    assert ask(serve(talk), PLAIN) == b"fine"
    assert asked[:2] == [(17, b"\0\5PLAIN"), (36, struct.pack(">i", 9) + b'\0ann\0s"3c')]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_logs_in_with_a_server_that_knows_the_password(
    ask: Ask, serve: Serve, mechanism: str
) -> None:
    def talk(client: Client) -> None:
        server = ScramServer(mechanism[6:].replace("-", "").lower(), 's"3c')
        client.accept_handshake()
        client.answer_token(server.first(client.token()))
        client.answer_token(server.final(client.token()))
        client.answer_request()

    assert ask(serve(talk), PLAIN | {"sasl.mechanism": mechanism}) == b"fine"


def test_a_server_that_does_not_know_the_password_is_refused(ask: Ask, serve: Serve) -> None:
    def talk(client: Client) -> None:
        server = ScramServer("sha256", "guessed")
        client.accept_handshake()
        client.answer_token(server.first(client.token()))
        client.token()
        client.answer_token(b"v=AAAA")

    with pytest.raises(AuthenticationFailed, match="it does not know the password itself"):
        ask(serve(talk), PLAIN | {"sasl.mechanism": "SCRAM-SHA-256"})


def test_a_password_that_the_broker_refuses_is_reported(ask: Ask, serve: Serve) -> None:
    def talk(client: Client) -> None:
        client.accept_handshake()
        client.token()
        client.answer(struct.pack(">hh", 58, 12) + b"wrong secret" + struct.pack(">iq", 0, 0))

    port = serve(talk)
    with pytest.raises(AuthenticationFailed) as failed:
        ask(port, PLAIN)
    assert str(failed.value) == f"the broker at localhost:{port} refuses ann: wrong secret"


def test_a_mechanism_that_the_broker_lacks_is_reported(ask: Ask, serve: Serve) -> None:
    def talk(client: Client) -> None:
        client.receive()
        client.answer(struct.pack(">hi", 33, 0))

    with pytest.raises(AuthenticationFailed, match="does not have the SASL mechanism PLAIN"):
        ask(serve(talk), PLAIN)


def test_a_login_that_is_cut_short_is_a_broker_that_is_gone(ask: Ask, serve: Serve) -> None:
    def talk(client: Client) -> None:
        client.accept_handshake()
        client.token()
        client.answer(b"\0")

    with pytest.raises(PeerGone):
        ask(serve(talk), PLAIN)


# -- TLS ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for localhost, signed by itself, in one PEM file."""
    folder = tmp_path_factory.mktemp("certificate")
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "own.pem"]
    try:
        made = subprocess.run(
            ["openssl", *options.split(), *names], cwd=folder, capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate with")
    assert made.returncode == 0, made.stderr
    whole = folder / "whole.pem"
    whole.write_bytes((folder / "own.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return whole


def served_by(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_tls_is_agreed_with_a_broker_that_is_trusted(
    ask: Ask, serve: Serve, certificate: Path
) -> None:
    port = serve(Client.answer_request, served_by(certificate))
    trusting = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(certificate),
        "ssl.keystore.location": str(certificate),
    }

    assert ask(port, trusting) == b"fine"


def test_sasl_works_over_tls(ask: Ask, serve: Serve, certificate: Path) -> None:
    def talk(client: Client) -> None:
        client.accept_handshake()
        client.token()
        client.answer_token(b"")
        client.answer_request()

    port = serve(talk, served_by(certificate))
    trusting = {"security.protocol": "SASL_SSL", "ssl.truststore.location": str(certificate)}

    assert ask(port, PLAIN | trusting) == b"fine"


def test_the_password_of_a_key_is_never_asked_for(
    certificate: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "encrypted.pem"
    encrypt = f"pkey -in {certificate} -aes128 -passout pass:s3c -out {key}"
    subprocess.run(["openssl", *encrypt.split()], check=True)
    own = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }

    with pytest.raises(ConfigError, match="certificates that cannot be read"):
        SecurityContext.of(own)
    assert "pass phrase" not in capfd.readouterr().err
    assert SecurityContext.of({**own, "ssl.key.password": "s3c"}).tls is not None


def test_a_broker_that_is_not_trusted_is_reported(
    ask: Ask, serve: Serve, certificate: Path
) -> None:
    port = serve(Client.answer_request, served_by(certificate))

    with pytest.raises(AuthenticationFailed) as failed:
        ask(port, {"security.protocol": "SSL"})
    assert str(failed.value).startswith(
        f"TLS with the broker at localhost:{port} fails: self-signed cert"
    )


def test_a_broker_that_goes_away_amid_tls_is_gone(ask: Ask, serve: Serve) -> None:
    port = serve(lambda client: client.connection.recv(1))

    with pytest.raises(PeerGone, match=f"^localhost:{port}"):
        ask(port, {"security.protocol": "SSL"})


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_login_that_is_cancelled_leaves_no_connection_open(serve: Serve, run: Any) -> None:
    asked, cancelled, seen = threading.Event(), threading.Event(), list[bytes]()

    def talk(client: Client) -> None:
        client.accept_handshake()
        client.token()
        asked.set()
        cancelled.wait(SOON)
        client.connection.settimeout(SOON)
        client.answer_token(b"")
        seen.append(client.connection.recv(1))
        ended.set()

    async def scenario() -> None:
        login = asyncio.ensure_future(_asking(port, PLAIN))
        await asyncio.to_thread(asked.wait, SOON)
        login.cancel()
        await asyncio.wait([login])
        cancelled.set()
        await asyncio.to_thread(ended.wait, 2)

    ended = threading.Event()
    port = serve(talk)
    run(scenario())
    assert ended.is_set()
    assert seen == [b""]


# -- properties --------------------------------------------------------------


def test_librdkafkas_user_and_password_are_taken_as_they_are() -> None:
    given = {"sasl.username": r"CORP\ann", "sasl.password": r"a\\b\!"}
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN", **given}
    login = SecurityContext.of(properties).login
    assert login is not None
    assert (login.username, login.password) == tuple(given.values())


def test_passwords_are_not_shown_by_what_holds_them() -> None:
    assert "3c" not in repr(SecurityContext.of(PLAIN))


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS', must be one of PLAINTEXT,"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is '', must be one of PLAIN, SCRAM"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            "sasl.mechanism is 'GSSAPI', must be one of",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            'sasl.jaas.config must say username="..." and password="..."',
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/x/trust.jks"},
            "ssl.truststore.location: /x/trust.jks: No such file or directory",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem"},
            "ssl.truststore.location: /nowhere.pem: No such file or directory",
        ),
    ],
)
def test_a_property_that_cannot_be_meant_is_reported(
    properties: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as wrong:
        SecurityContext.of(properties)

    assert str(wrong.value).startswith(sentence)


def test_a_token_is_fetched_off_the_loop() -> None:
    """The endpoint is served by the loop that asks: it would wait for itself otherwise."""

    async def grant(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # All of the request: who closes with some of it unread resets the connection.
        await reader.readuntil(b"grant_type=client_credentials")
        body = b'{"access_token": "granted"}'
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async def fetched() -> bytes | None:
        async with await asyncio.start_server(grant, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            security = SecurityContext.of(
                {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token",
                }
            )
            return await fetched_token(security)

    assert b"auth=Bearer granted\x01" in (asyncio.run(fetched()) or b"")
