"""The versions of Kafka's APIs that a client speaks.

Brokers of one cluster speak our newest versions. A client that does not know the brokers either
keeps to versions that every supported Kafka has, or asks for theirs (ApiVersions).
"""

import struct
from collections.abc import Mapping
from typing import Final

from barnabas.base.errors import BarnabasError
from barnabas.client.frames import MalformedResponse, request_header, sized
from barnabas.client.security import Frame
from barnabas.wire.apis import APIS, UNADVERTISED, ApiKey

NEWEST: Final[Mapping[ApiKey, int]] = {key: api.highest for key, api in APIS.items()}
# Kafka has these versions from 3.1 on, and Kafka 4 still has them.
PORTABLE: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 13,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.DELETE_GROUPS: 2,
}
_VERSION: Final = 0  # every broker has it
_CODE_AND_COUNT = struct.Struct(">hi")
_RANGE = struct.Struct(">hhh")


class UnsupportedApi(BarnabasError):
    """The broker does not have this API, or no version of it that we know."""


def version_of(key: ApiKey, versions: Mapping[ApiKey, int]) -> int:
    """Raises  UnsupportedApi"""
    if key not in versions:
        raise UnsupportedApi(f"the broker does not have {key.name} in a version that we know")
    return versions[key]


def versions_request(client_id: str) -> Frame:
    return lambda number: sized(request_header(ApiKey.API_VERSIONS, _VERSION, number, client_id))


def read_versions(response: memoryview) -> dict[ApiKey, int]:
    """The newest version of each API that the broker and we have; of our own APIs, ours.

    Raises  MalformedResponse
    """
    common = {key: NEWEST[key] for key in UNADVERTISED}
    try:
        code, count = _CODE_AND_COUNT.unpack_from(response)
        ranges = [
            _RANGE.unpack_from(response, _CODE_AND_COUNT.size + n * _RANGE.size)
            for n in range(count)
        ]
    except struct.error as failure:
        raise MalformedResponse(f"API_VERSIONS v{_VERSION}: {failure}") from None
    if code:
        raise MalformedResponse(f"API_VERSIONS v{_VERSION}: error {code}")
    for key, lowest, highest in ranges:
        ours = APIS.get(key)
        if ours is not None and lowest <= ours.highest and highest >= ours.lowest:
            common[ApiKey(key)] = min(highest, ours.highest)
    return common
