"""Unmodified clients over every protocol and mechanism: each gets in, and each is refused."""

from typing import Any

import pytest

from tests.clients.secure.secure_clients import CLIENTS
from tests.support.secure_broker import FORGED, SIGNED, WAYS, WRONG, SecureBroker

# The others are `long`.
_SHORT = {(client, way) for client in CLIENTS for way in ("MUTUAL", "SASL_SSL SCRAM-SHA-512")}
_SHORT_REFUSED = {
    (client, f"{way}: {why}")
    for client in ("librdkafka", "aiokafka")
    for way, why in (("SASL_SSL SCRAM-SHA-512", "wrong password"), ("MUTUAL", "foreign authority"))
}


def cases(ways: list[str], signed: str, short: set[tuple[str, str]]) -> list[Any]:
    pairs = [(client, way) for client in CLIENTS for way in (*ways, signed)]
    pairs.remove(("kcat", signed))  # it makes unsigned tokens only
    return [pytest.param(*pair, marks=[] if pair in short else pytest.mark.long) for pair in pairs]


@pytest.mark.parametrize(("client", "way"), cases(WAYS, SIGNED, _SHORT))
def test_a_client_creates_a_topic_produces_and_consumes_in_a_group(
    secure: SecureBroker, topic: str, client: str, way: str
) -> None:
    assert CLIENTS[client]().round_trip(secure.logins[way], topic) == b"hello"


@pytest.mark.parametrize(("client", "way"), cases(WRONG, FORGED, _SHORT_REFUSED))
def test_a_client_with_wrong_credentials_is_refused(
    secure: SecureBroker, client: str, way: str
) -> None:
    assert CLIENTS[client]().is_refused(secure.logins[way])
