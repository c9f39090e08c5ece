"""SCRAM: the vectors of the RFCs, and a server that shares the functions."""

import pytest

from barnabas.client.scram import ScramClient, ScramFailed
from tests.client.scram_server import ScramServer

NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def test_the_conversation_of_rfc_5802_is_reproduced() -> None:
    client = ScramClient("sha1", "user", "pencil", NONCE)

    assert client.first() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    final = client.final(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096")
    assert final == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    client.verify(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


def test_the_conversation_of_rfc_7677_is_reproduced() -> None:
    client = ScramClient("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")

    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.final(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(ScramFailed, match="does not know the password itself"):
        client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=")


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_both_sides_know_the_password(algorithm: str) -> None:
    client = ScramClient(algorithm, "a,b=c", "pässword", NONCE)
    server = ScramServer(algorithm, "pässword", 5000)

    client.verify(server.final(client.final(server.first(client.first()))))

    assert server.username == "a=2Cb=3Dc"


def test_a_server_refuses_another_password() -> None:
    client = ScramClient("sha256", "user", "guessed", NONCE)
    server = ScramServer("sha256", "pencil")

    with pytest.raises(ScramFailed, match="invalid-proof"):
        client.verify(server.final(client.final(server.first(client.first()))))


def test_nothing_is_proved_to_a_server_that_wants_fewer_iterations_than_kafka_allows() -> None:
    client = ScramClient("sha256", "user", "pencil", NONCE)
    server = ScramServer("sha256", "pencil", 4095)

    with pytest.raises(ScramFailed, match="it asks for 4095 iterations, fewer than 4096"):
        client.final(server.first(client.first()))


def test_a_server_that_wants_the_client_to_compute_for_hours_is_refused_at_once() -> None:
    challenge = f"r={NONCE}1,s=QSXCR+Q6sek8bf92,i=2147483647".encode()

    with pytest.raises(ScramFailed, match="it asks for 2147483647 iterations, more than 1000000"):
        ScramClient("sha512", "user", "pencil", NONCE).final(challenge)


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r=another,s=QSXCR+Q6sek8bf92,i=4096", "answers the challenge of another client"),
        (b"r=fyko+d2lbbFgONRv9qkxdawL1,s=QSXCR+Q6sek8bf92", "not one of SCRAM"),
        (b"r=fyko+d2lbbFgONRv9qkxdawL1,s=!,i=4096", "not one of SCRAM"),
        (b"r=fyko+d2lbbFgONRv9qkxdawL1,s=QSXCR+Q6sek8bf92,i=many", "not one of SCRAM"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_a_challenge_that_is_none_is_refused(challenge: bytes, why: str) -> None:
    with pytest.raises(ScramFailed, match=why):
        ScramClient("sha256", "user", "pencil", NONCE).final(challenge)


def test_a_server_that_skips_the_challenge_is_not_believed() -> None:
    with pytest.raises(ScramFailed, match="does not know the password itself"):
        ScramClient("sha256", "user", "pencil", NONCE).verify(b"v=")
