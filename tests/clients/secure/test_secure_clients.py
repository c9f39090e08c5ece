"""Unmodified clients over every protocol and mechanism: each gets in, and each is refused."""

from typing import Any

import pytest

from tests.clients.secure.secure_clients import CLIENTS
from tests.support.secure_broker import FORGED, SIGNED, WAYS, WRONG, SecureBroker

# The others are `long`.
_SHORT = ("MUTUAL", "SASL_SSL SCRAM-SHA-512")
_SHORT_REFUSED = ("SASL_SSL SCRAM-SHA-512: wrong password", "MUTUAL: foreign authority")


def cases(ways: list[str], signed: str, short: tuple[str, ...]) -> list[Any]:
    # kcat makes unsigned tokens only.
    pairs = [
        (client, way)
        for client in CLIENTS
        for way in (*ways, signed)
        if (client, way) != ("kcat", signed)
    ]
    return [
        pytest.param(client, way, marks=[] if way in short else pytest.mark.long)
        for client, way in pairs
    ]


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
