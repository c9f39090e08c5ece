"""PLAIN of the server."""

import pytest

from barnabas.base.errors import ConfigError
from barnabas.config.jaas import jaas_options, jaas_text
from barnabas.security.sasl import Identity, Plain, SaslFailed


def answered(token: bytes) -> Identity | None:
    plain = Plain({"alice": "secret"})
    assert plain.respond(token, 0) == b""
    return plain.identity


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_s13_user_and_password_are_enough(token: bytes) -> None:
    assert answered(token) == Identity("alice")


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0alice", "expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0bob\0secret", "Invalid username or password"),
        (b"bob\0alice\0secret", "authorization id"),
        (b"\xff\0\xff\0\xff", "UTF-8"),
    ],
)
def test_s13_everything_else_is_refused(token: bytes, words: str) -> None:
    with pytest.raises(SaslFailed) as failed:
        answered(token)
    assert words in (failed.value.message or "")


def test_s13_a_jaas_string_of_kafka_is_read_as_it_is() -> None:
    text = """org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password='a b'
        user_alice="quo\\"te" serviceName=kafka;"""
    assert jaas_options(text) == {
        "username": "admin",
        "password": "a b",
        "user_alice": 'quo"te',
        "serviceName": "kafka",
    }
    options = {"username": 'a"\\b', "password": "p"}
    assert jaas_options(jaas_text("Module", options)) == options


@pytest.mark.parametrize(
    "text", ["", "Module", "Module maybe a=b", "M required a", 'M required a="']
)
def test_s13_another_string_is_refused_without_its_values(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^sasl.jaas.config"):
        jaas_options(text)
