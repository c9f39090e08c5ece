"""ApiVersions, and that every version of every API that it tells of is answered."""

import struct

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import APIS, ApiKey
from tests.server.admin.client import Client
from tests.support.served import ADVERTISED

ADMIN = [key for key in APIS if key not in (ApiKey.PRODUCE, ApiKey.FETCH)]


@pytest.mark.parametrize("version", range(5))
def test_every_version_returns_the_same_ranges(client: Client, version: int) -> None:
    response = client.call(
        ApiKey.API_VERSIONS, version, client_software_name="t", client_software_version="1"
    )
    assert response.error_code == ErrorCode.none
    told = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert told == {int(k): (api.advertised_lowest, api.highest) for k, api in ADVERTISED.items()}


def test_a_version_too_new_is_answered_in_version_0_with_the_range_to_use(client: Client) -> None:
    client._socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    frame = client._stream.read(20)
    assert struct.unpack(">iihihhh", frame) == (16, 7, 35, 1, 18, 0, 4)


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ä"])
def test_a_software_name_that_is_none_is_refused(client: Client, name: str) -> None:
    response = client.call(
        ApiKey.API_VERSIONS, client_software_name=name, client_software_version="1"
    )
    assert response.error_code == ErrorCode.invalid_request
    assert not response.api_keys


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, v) for key in ADMIN for v in range(APIS[key].lowest, APIS[key].highest + 1)],
    ids=lambda value: value.name if isinstance(value, ApiKey) else str(value),
)
def test_a_request_with_nothing_in_it_is_answered(
    client: Client, key: ApiKey, version: int
) -> None:
    client.call(key, version, client_software_name="t", client_software_version="1", cursor=None)


def test_a_version_not_served_closes_the_connection_and_only_that(client: Client) -> None:
    client._socket.sendall(struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 7, -1))
    assert client._stream.read(1) == b""
