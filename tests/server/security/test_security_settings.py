"""Properties of security with which a broker does not start."""

from pathlib import Path

import pytest

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ConfigError
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.network.listener_security import ListenerSecurities
from barnabas.server.settings import check_security, warn_if_open
from tests.server.security.conftest import secure_properties


def started(properties: dict[str, str]) -> None:
    config = BrokerConfig(properties)
    check_security(config)
    ListenerSecurities(config, SystemClock(), Random(1))


@pytest.fixture
def properties(certificates: Path) -> dict[str, str]:
    return secure_properties(certificates, {"SSL": 1, "SASL_SSL": 2})


def test_the_properties_of_these_tests_are_good(properties: dict[str, str]) -> None:
    started(properties)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.mechanism.inter.broker.protocol must be"),
        (
            {
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            },
            "Kerberos is not supported",
        ),
        ({"sasl.kerberos.service.name": "kafka"}, "sasl.kerberos.service.name: not supported"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "must be included"),
        ({"ssl.keystore.location": "/nowhere"}, "/nowhere: No such file"),
        ({"ssl.keystore.location": ""}, "needs a key and a certificate"),
        ({"ssl.principal.mapping.rules": "nonsense"}, "invalid rule"),
        (
            {"listener.name.sasl_ssl.plain.sasl.server.callback.handler.class": "evil.Class"},
            "no class is ever loaded",
        ),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "https://example.org/jwks"},
            "is not among barnabas.sasl.oauthbearer.allowed.urls",
        ),
        ({"listener.name.sasl_ssl.plain.sasl.jaas.config": "com.evil.Module"}, "LOGIN_MODULE"),
    ],
)
def test_s3_s20_s22_a_broker_that_could_not_be_secured_does_not_start(
    properties: dict[str, str], change: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        started(properties | change)
    assert words in str(refused.value)


def test_s9_sensitive_values_are_never_described(properties: dict[str, str]) -> None:
    for entry in BrokerConfig(properties).describe():
        shown = f"{entry.value} {[synonym.value for synonym in entry.synonyms]}"
        assert "admin-secret" not in shown


SASL = {
    "listener.security.protocol.map": "ONE:SASL_PLAINTEXT",
    "inter.broker.listener.name": "ONE",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:1"}, []),
        ({"listeners": "PLAINTEXT://localhost:1,SSL://[::1]:2"}, []),
        ({"listeners": "PLAINTEXT://:1,SSL://:2"}, ["PLAINTEXT://:1"]),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,SSL://192.0.2.1:2"}, ["SSL://192.0.2.1:2"]),
        ({"listeners": "SSL://:1", "security.inter.broker.protocol": "SSL"}, ["SSL://:1"]),
        (
            {
                "listeners": "SSL://:1",
                "security.inter.broker.protocol": "SSL",
                "ssl.client.auth": "required",
            },
            [],
        ),
        ({"listeners": "ONE://:1", **SASL}, []),
    ],
)
def test_one_line_says_that_strangers_may_do_everything(
    caplog: pytest.LogCaptureFixture, change: dict[str, str], warned: list[str]
) -> None:
    warn_if_open(BrokerConfig(change))
    lines = [each.getMessage() for each in caplog.records]
    assert [line.split(" is open to everyone")[0] for line in lines] == [
        f"listener {each}" for each in warned
    ]
