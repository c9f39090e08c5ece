"""SASL on a real broker: the clients people have, and frames that no client sends."""

import asyncio
import socket
import struct
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, admin
from confluent_kafka.admin import AdminClient

from barnabas.cli.main import run
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.security import AuthenticationFailed, SecurityContext
from barnabas.config.jaas import jaas_text
from barnabas.wire.apis import ApiKey
from tests.server.security.conftest import PLAIN_MODULE, SecureBroker, StartBroker
from tests.support import kafka_python_client
from tests.support.waiting import until

SOON = 60.0
ALICE = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": 'a"l\\ice'}
ILLEGAL_SASL_STATE, UNSUPPORTED_MECHANISM, FAILED = 34, 33, 58


def add_users(broker: SecureBroker) -> None:
    from confluent_kafka import admin as names

    kinds: Any = names
    client = AdminClient({**broker.librdkafka("SASL_SSL", **ALICE)})
    wanted = [
        kinds.UserScramCredentialUpsertion(
            "sam", kinds.ScramCredentialInfo(mechanism, 4096), b"sam-secret"
        )
        for mechanism in (kinds.ScramMechanism.SCRAM_SHA_256, kinds.ScramMechanism.SCRAM_SHA_512)
    ]
    for future in client.alter_user_scram_credentials(wanted).values():
        future.result(SOON)


def round_trip(settings: dict[str, str]) -> None:
    topic = f"t-{uuid.uuid4()}"
    producer = Producer(settings)
    producer.produce(topic, b"hello")
    assert producer.flush(SOON) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(SOON)
        assert message is not None
        assert message.value() == b"hello"
    finally:
        consumer.close()


def frame(key: int, version: int, body: bytes, correlation_id: int = 7) -> bytes:
    head = struct.pack(">hhih", key, version, correlation_id, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def connected(broker: SecureBroker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.ports["SASL_PLAINTEXT"]), SOON)


def received(sock: socket.socket) -> bytes:
    """One frame, without its size; empty if the broker closed."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
        try:
            more = sock.recv(65536)
        except ConnectionResetError:
            return b""
        if not more:
            return b""
        data += more
    return data[4:]


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_s13_librdkafka_writes_and_reads_with_plain(
    secure_broker: SecureBroker, protocol: str
) -> None:
    round_trip(secure_broker.librdkafka(protocol, **ALICE))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_s14_librdkafka_kafka_python_and_aiokafka_write_with_scram(
    secure_broker: SecureBroker, mechanism: str
) -> None:
    add_users(secure_broker)
    sam = {"sasl_username": "sam", "sasl_password": "sam-secret", "sasl_mechanism": mechanism}
    round_trip(secure_broker.librdkafka("SASL_SSL", **sam))
    theirs = {
        "bootstrap_servers": secure_broker.at("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "sam",
        "sasl_plain_password": "sam-secret",
    }
    untyped: Any = kafka_python_client
    with closing(untyped.kafka.KafkaProducer(**theirs)) as producer:
        producer.send("scram", b"hello").get(SOON)

    async def send() -> None:
        connected_to: Any = AIOKafkaProducer
        async with connected_to(**theirs) as producer:
            await producer.send_and_wait("scram", b"hello")

    asyncio.run(send())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sasl_password": "wrong"}, "Invalid username or password"),
        ({"sasl_username": "nobody"}, "Invalid username or password"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "invalid credentials"),
        ({"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "nobody"}, "invalid credentials"),
    ],
)
def test_s12_wrong_credentials_are_refused_in_the_same_words_for_every_user(
    secure_broker: SecureBroker, wrong: dict[str, str], words: str
) -> None:
    errors: list[Any] = []
    settings = secure_broker.librdkafka("SASL_PLAINTEXT", **(ALICE | wrong))
    callback: Any = errors.append
    client = AdminClient({**settings, "error_cb": callback, "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1.0)
    client.poll(0)
    assert any(words in error.str() for error in errors), errors


def test_s11_an_unsupported_mechanism_is_answered_with_those_there_are(
    secure_broker: SecureBroker,
) -> None:
    with connected(secure_broker) as sock:
        sock.sendall(frame(17, 1, text("GSSAPI")))
        answer = received(sock)
        assert struct.unpack_from(">ihi", answer) == (7, UNSUPPORTED_MECHANISM, 4)
        assert b"SCRAM-SHA-512" in answer
        assert received(sock) == b""


def test_s11_a_frame_beyond_the_limit_closes_the_connection(secure_broker: SecureBroker) -> None:
    with connected(secure_broker) as sock:
        sock.sendall(struct.pack(">i", 600_000) + b"x" * 100)
        assert received(sock) == b""


@pytest.mark.parametrize("key", sorted(set(ApiKey) - {17, 18, 36}))
def test_s10_any_other_api_before_authentication_closes_the_connection(
    secure_broker: SecureBroker, key: int
) -> None:
    with connected(secure_broker) as sock:
        sock.sendall(frame(key, 0, b"\0" * 64))
        assert received(sock) == b""
    with connected(secure_broker) as sock:
        sock.sendall(frame(17, 1, text("PLAIN")))
        assert received(sock)[4:6] == b"\0\0"
        sock.sendall(frame(key, 0, b"\0" * 64))
        assert received(sock) == b""


def test_s10_api_versions_is_answered_once_before_the_handshake(
    secure_broker: SecureBroker,
) -> None:
    with connected(secure_broker) as sock:
        sock.sendall(frame(18, 0, b""))
        assert struct.unpack_from(">ih", received(sock)) == (7, 0)
        sock.sendall(frame(18, 0, b""))
        assert received(sock) == b""


def test_s39_a_client_that_is_not_authenticated_uses_up_no_quota(start_secure: StartBroker) -> None:
    broker = start_secure({})
    connection = broker.librdkafka("SASL_SSL", **ALICE)
    options = ["-b", connection.pop("bootstrap.servers")]
    for key, value in connection.items():
        options += ["-X", f"{key}={value}"]
    assert run(["quotas", "set", "--default-user", "request_percentage=0.0001", *options]) == 0

    def throttle_ms(sock: socket.socket) -> int:
        sock.sendall(frame(18, 1, b""))
        (ms,) = struct.unpack(">i", received(sock)[-4:])
        return int(ms)

    for _ in range(3):
        with connected(broker) as sock:
            assert throttle_ms(sock) == 0


def test_s10_sasl_authenticate_before_the_handshake_is_an_illegal_state(
    secure_broker: SecureBroker,
) -> None:
    with connected(secure_broker) as sock:
        sock.sendall(frame(36, 0, struct.pack(">i", 3) + b"\0a\0"))
        assert struct.unpack_from(">ih", received(sock)) == (7, ILLEGAL_SASL_STATE)
        assert received(sock) == b""


def test_s10_a_client_of_version_0_sends_bare_tokens(secure_broker: SecureBroker) -> None:
    with connected(secure_broker) as sock:
        sock.sendall(frame(17, 0, text("PLAIN")))
        assert received(sock)[4:6] == b"\0\0"
        token = b'\0alice\0a"l\\ice'
        sock.sendall(struct.pack(">i", len(token)) + token)
        assert sock.recv(4) == b"\0\0\0\0"
        sock.sendall(frame(3, 1, struct.pack(">i", 0)))
        assert len(received(sock)) > 10


def authenticated(broker: SecureBroker, version: int = 1) -> tuple[socket.socket, bytes]:
    sock = connected(broker)
    sock.sendall(frame(17, 1, text("PLAIN")))
    received(sock)
    token = b'\0alice\0a"l\\ice'
    sock.sendall(frame(36, version, struct.pack(">i", len(token)) + token))
    return sock, received(sock)


def test_s21_a_session_ends_unless_the_client_authenticates_again(
    start_secure: StartBroker,
) -> None:
    broker = start_secure({"connections.max.reauth.ms": "1500"})
    idle, answer = authenticated(broker)
    busy, _ = authenticated(broker)
    with idle, busy:
        assert struct.unpack(">q", answer[-8:]) == (1500,)
        metadata = frame(3, 1, struct.pack(">i", 0))

        def is_over() -> bool:
            idle.sendall(metadata)
            return received(idle) == b""

        token = b'\0alice\0a"l\\ice'
        busy.sendall(metadata)
        assert received(busy)
        busy.sendall(frame(17, 1, text("PLAIN")))
        assert received(busy)[4:6] == b"\0\0"
        busy.sendall(frame(36, 1, struct.pack(">i", len(token)) + token))
        assert received(busy)[4:6] == b"\0\0"
        until(is_over, "the end of the session", SOON)
        busy.sendall(frame(17, 1, text("PLAIN")))
        again = received(busy)
        assert again == b"" or struct.unpack_from(">h", again, 4)[0] in (0, ILLEGAL_SASL_STATE)


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [("SCRAM-SHA-256", b"n,,n=alice,r=abc"), ("PLAIN", b"\0admin\0admin-secret")],
)
def test_s21_mechanism_and_principal_stay_the_same(
    secure_broker: SecureBroker, mechanism: str, token: bytes
) -> None:
    sock, _ = authenticated(secure_broker)
    with sock:
        sock.sendall(frame(17, 1, text(mechanism)))
        code = struct.unpack_from(">h", received(sock), 4)[0]
        assert code == (0 if mechanism == "PLAIN" else UNSUPPORTED_MECHANISM)
        if code == 0:
            sock.sendall(frame(36, 1, struct.pack(">i", len(token)) + token))
            assert struct.unpack_from(">h", received(sock), 4)[0] == FAILED
        else:
            sock.sendall(frame(3, 1, struct.pack(">i", 0)))
        assert received(sock) == b""
    assert "Traceback" not in secure_broker.process.log()


def test_s21_a_user_who_is_removed_does_not_authenticate_again(start_secure: StartBroker) -> None:
    broker = start_secure({"password.encoder.secret": "secret"})
    sock, answer = authenticated(broker)
    with sock:
        assert answer[4:6] == b"\0\0"
        name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
        others = jaas_text(PLAIN_MODULE, {"user_admin": "admin-secret"})
        kinds: Any = admin
        client = kinds.AdminClient(broker.librdkafka("SASL_SSL", **ALICE))
        operation = kinds.AlterConfigOpType.SET
        entry = kinds.ConfigEntry(name, others, incremental_operation=operation)
        of_broker = kinds.ConfigResource(
            kinds.ConfigResource.Type.BROKER, "0", incremental_configs=[entry]
        )
        for future in client.incremental_alter_configs([of_broker]).values():
            future.result(SOON)

        def is_removed() -> bool:
            other, refused = authenticated(broker)
            other.close()
            return bool(struct.unpack_from(">h", refused, 4)[0] == FAILED)

        until(is_removed, "the removal of a user", SOON)
        sock.sendall(frame(17, 1, text("PLAIN")))
        assert received(sock)[4:6] == b"\0\0"
        token = b'\0alice\0a"l\\ice'
        sock.sendall(frame(36, 1, struct.pack(">i", len(token)) + token))
        assert struct.unpack_from(">h", received(sock), 4)[0] == FAILED
        assert received(sock) == b""
    assert others not in broker.process.log()
    assert "admin-secret" not in broker.process.log()


def test_s12_a_user_name_forges_no_line_of_the_log(secure_broker: SecureBroker) -> None:
    forged = f"2026-01-01T00:00:00.000Z INFO forged {uuid.uuid4()}"
    token = f"\0eve\n{forged}\0guess".encode()

    def is_logged() -> bool:
        """True if the attempt is logged; of several in a second only one is."""
        with connected(secure_broker) as sock:
            sock.sendall(frame(17, 1, text("PLAIN")))
            received(sock)
            sock.sendall(frame(36, 1, struct.pack(">i", len(token)) + token))
            assert struct.unpack_from(">h", received(sock), 4)[0] == FAILED
        return f"user=eve\\n{forged}" in secure_broker.process.log()

    until(is_logged, "a line of the log", SOON)
    assert forged not in secure_broker.process.log().splitlines()


def test_a_client_that_never_authenticates_is_closed_in_bounded_time(
    start_secure: StartBroker,
) -> None:
    broker = start_secure({"barnabas.authentication.timeout.ms": "700"})
    with connected(broker) as silent:
        silent.sendall(frame(17, 1, text("PLAIN")))
        assert received(silent)
        assert received(silent) == b""


def properties(broker: SecureBroker, **more: str) -> dict[str, str]:
    ours = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(broker.certificates / "ca.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": 'a"l\\ice',
    }
    return ours | {name.replace("_", "."): value for name, value in more.items()}


def connect_ours(broker: SecureBroker, settings: dict[str, str], host: str = "127.0.0.1") -> None:
    BlockingConnection.connect(
        host,
        broker.ports["SASL_SSL"],
        client_id="test",
        connect_s=SOON,
        response_s=SOON,
        security=SecurityContext.of(settings),
    ).close()


def test_our_client_authenticates_with_every_mechanism(secure_broker: SecureBroker) -> None:
    add_users(secure_broker)
    connect_ours(secure_broker, properties(secure_broker))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        settings = properties(secure_broker, sasl_mechanism=mechanism, sasl_username="sam")
        connect_ours(secure_broker, settings | {"sasl.password": "sam-secret"})
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            connect_ours(secure_broker, settings | {"sasl.password": "wrong"})
    token = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=bob;",
    }
    connect_ours(secure_broker, properties(secure_broker) | token)
    expired = "unsecuredLoginStringClaim_sub=bob unsecuredLoginLifetimeSeconds=-5;"
    token["sasl.jaas.config"] = f"OAuthBearerLoginModule required {expired}"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        connect_ours(secure_broker, properties(secure_broker) | token)


Mutation = Callable[[bytes, int], bytes]


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_mutated_handshakes_never_get_in_and_never_break_the_broker(
    secure_broker: SecureBroker, count: int
) -> None:
    import random

    dice = random.Random(7)
    whole = frame(17, 1, text("PLAIN")) + frame(36, 1, struct.pack(">i", 12) + b"\0alice\0wrong")
    for _ in range(count):
        mutated = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            mutated[dice.randrange(len(mutated))] = dice.randrange(256)
        with connected(secure_broker) as sock:
            sock.sendall(bytes(mutated[: dice.randint(1, len(mutated))]))
            sock.shutdown(socket.SHUT_WR)
            while answer := received(sock):
                assert not answer[8:].startswith(b"v=")
    round_trip(secure_broker.librdkafka("SASL_PLAINTEXT", **ALICE))
    assert "Traceback" not in secure_broker.process.log()
