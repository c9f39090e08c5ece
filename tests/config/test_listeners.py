"""Listeners: parsed and refused by Kafka's rules."""

import pytest

from barnabas.base.errors import ConfigError
from barnabas.config.listeners import Listener, parse_listeners, parse_protocol_map

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "INSIDE": "SASL_SSL"}


def test_s1_names_hosts_ports_and_protocols_are_parsed() -> None:
    text = "plaintext://:9092, SSL://example.org:9093 ,INSIDE://[::1]:0"
    assert parse_listeners(text, PROTOCOLS) == [
        Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),
        Listener("SSL", "example.org", 9093, "SSL"),
        Listener("INSIDE", "::1", 0, "SASL_SSL"),
    ]


@pytest.mark.parametrize("text", ["PLAINTEXT://:9092", "SSL://10.0.0.1:0", "INSIDE://[fe80::1]:1"])
def test_a_listener_prints_as_it_was_written(text: str) -> None:
    assert [str(listener) for listener in parse_listeners(text, PROTOCOLS)] == [text]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("localhost:9092", "Unable to parse localhost:9092 to a broker endpoint"),
        ("PLAINTEXT://localhost", "Unable to parse PLAINTEXT://localhost to"),
        ("PLAINTEXT://a b:1", "Unable to parse PLAINTEXT://a b:1 to"),
        ("PLAINTEXT://:65536", "Unable to parse PLAINTEXT://:65536 to"),
        ("PLAINTEXT://:http", "Unable to parse PLAINTEXT://:http to"),
        ("OTHER://:1", "No security protocol defined for listener OTHER"),
        ("PLAINTEXT://:1,plaintext://:2", "Each listener must have a different name"),
        ("PLAINTEXT://:1,SSL://:1", "Each listener must have a different port"),
        ("PLAINTEXT://a:1,SSL://b:1", "Each listener must have a different port"),
        ("PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1", "one needs to be IPv4 and the other IPv6"),
        ("PLAINTEXT://127.0.0.1:1,SSL://[::1]:1,INSIDE://a:1", "one needs to be IPv4 and the"),
    ],
)
def test_invalid_listeners_are_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_listeners(text, PROTOCOLS)
    assert why in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "text", ["PLAINTEXT://:0,SSL://:0", "PLAINTEXT://127.0.0.1:1,SSL://[::1]:1"]
)
def test_ports_may_repeat_when_free_or_when_one_is_ipv4_and_the_other_ipv6(text: str) -> None:
    assert len(parse_listeners(text, PROTOCOLS)) == 2


def test_advertised_ports_may_repeat() -> None:
    assert len(parse_listeners("PLAINTEXT://a:1,SSL://b:1", PROTOCOLS, distinct_ports=False)) == 2


def test_the_protocol_of_each_name_is_parsed() -> None:
    assert parse_protocol_map("inside:ssl, B:PLAINTEXT") == {"INSIDE": "SSL", "B": "PLAINTEXT"}


@pytest.mark.parametrize("text", ["INSIDE:TLS", "INSIDE"])
def test_an_unknown_protocol_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Invalid security protocol"):
        parse_protocol_map(text)
