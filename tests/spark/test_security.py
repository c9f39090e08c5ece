"""TLS and SASL of connections: agreed with a server that is one, refused in one sentence else."""

import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import PeerGone
from barnabas.base.randomness import Random
from barnabas.spark.blocking_connection import connect
from barnabas.spark.scram import ScramClient
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import SparkFailure, WrongOption

PLAIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="ann" password="s\\"3c";',
}


def read_options(**more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "any"}
    return SourceOptions.of(given | more, streaming=False)


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Answer one connection: `serve(talk, context)` gives the port; `talk` gets the socket."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(talk: Callable[[Any], None], context: ssl.SSLContext | None = None) -> int:
        listener = socket.create_server(("localhost", 0))

        def work() -> None:
            try:
                connection, _ = listener.accept()
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                with connection:
                    talk(connection)
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


def asked(connection: Any) -> tuple[int, bytes]:
    """The API of the next request, and its body."""
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    frame = _exactly(connection, size)
    api, _, _, length = struct.unpack_from(">hhih", frame)
    return api, frame[10 + length :]


def _exactly(connection: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data)) or pytest.fail("cut short")
    return data


def answer(connection: Any, body: bytes) -> None:
    connection.sendall(struct.pack(">ii", 4 + len(body), 1) + body)


def test_a_name_and_a_password_are_told_as_plain_says(serve: Callable[..., int]) -> None:
    heard: list[tuple[int, bytes]] = []

    def talk(connection: Any) -> None:
        heard.append(asked(connection))
        answer(connection, struct.pack(">hi", 0, 0))
        heard.append(asked(connection))
        answer(connection, struct.pack(">hhiq", 0, -1, 0, 0))

    port = serve(talk)
    connect("localhost", port, read_options(**PLAIN)).close()

    assert heard == [(17, b"\0\5PLAIN"), (36, struct.pack(">i", 9) + b'\0ann\0s"3c')]


def test_a_password_that_is_refused_is_told(serve: Callable[..., int]) -> None:
    def talk(connection: Any) -> None:
        asked(connection)
        answer(connection, struct.pack(">hi", 0, 0))
        asked(connection)
        answer(connection, struct.pack(">hh", 58, 12) + b"wrong secret" + struct.pack(">iq", 0, 0))

    port = serve(talk)

    with pytest.raises(SparkFailure) as told:
        connect("localhost", port, read_options(**PLAIN))
    assert str(told.value) == (
        f"the broker at localhost:{port} refuses ann: wrong secret; see kafka.sasl.jaas.config"
    )


def test_a_mechanism_that_the_broker_lacks_is_told(serve: Callable[..., int]) -> None:
    def talk(connection: Any) -> None:
        asked(connection)
        answer(connection, struct.pack(">hi", 33, 0))

    port = serve(talk)

    with pytest.raises(SparkFailure, match=r"does not know kafka\.sasl\.mechanism PLAIN"):
        connect("localhost", port, read_options(**PLAIN))


class Known(Random):
    """Gives the nonce of the RFC's example."""

    def uuid(self) -> Any:
        return type("Nonce", (), {"hex": "rOprNGfwEbeRWgbNEkqO"})


def test_scram_is_that_of_the_rfc() -> None:
    client = ScramClient("sha256", "user", "pencil", Known())

    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    proof = client.proof(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert proof == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.is_proven_by(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert not client.is_proven_by(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for localhost, signed by itself, in one file of PEM."""
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


def test_tls_is_agreed_with_a_broker_that_is_trusted(
    serve: Callable[..., int], certificate: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def talk(connection: Any) -> None:
        asked(connection)
        answer(connection, b"fine")

    port = serve(talk, context)
    trusting = read_options(
        **{
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.location": str(certificate),
            "kafka.ssl.keystore.location": str(certificate),
        }
    )
    connection = connect("localhost", port, trusting)
    try:
        assert bytes(connection.ask(struct.pack(">ihhih", 10, 3, 12, 1, 0))) == b"fine"
    finally:
        connection.close()


def test_a_broker_that_is_not_trusted_is_told(serve: Callable[..., int], certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    port = serve(lambda connection: None, context)

    with pytest.raises(SparkFailure) as told:
        connect("localhost", port, read_options(**{"kafka.security.protocol": "SSL"}))

    assert str(told.value).startswith("TLS with the broker at localhost fails: self-signed cert")


def test_a_broker_that_goes_away_amid_tls_is_asked_again(serve: Callable[..., int]) -> None:
    port = serve(lambda connection: connection.recv(1))

    with pytest.raises(PeerGone, match="localhost: went away before TLS was agreed on"):
        connect("localhost", port, read_options(**{"kafka.security.protocol": "SSL"}))


def test_passwords_are_not_told_by_what_holds_them() -> None:
    assert "3c" not in repr(read_options(**PLAIN))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"security.protocol": "TLS"}, "kafka.security.protocol is 'TLS', must be one of"),
        ({"security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is '', must be one of PLAIN"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            "kafka.sasl.mechanism is 'GSSAPI', must be one of",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            'kafka.sasl.jaas.config must say username="..." and password="..."',
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/x/trust.jks"},
            "kafka.ssl.truststore.location must be a file of PEM",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem"},
            "certificates that the options kafka.ssl.* name cannot be read",
        ),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_sentence(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(WrongOption) as told:
        read_options(**{f"kafka.{name}": value for name, value in options.items()})

    assert sentence in str(told.value)
