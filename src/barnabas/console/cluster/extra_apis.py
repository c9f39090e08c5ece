"""APIs that a cluster may have or not: transactions, users, ACLs and quotas.

Each is spoken in one version, which Kafka has from 3.0 to 4.x. A page asks `offers` first and says
so where the cluster does not have it.
"""

import struct
from functools import cache
from typing import Any, Final, NamedTuple

from kio.index import load_payload_module
from kio.static.constants import EntityType

from barnabas.client.frames import sized
from barnabas.console.cluster.console_client import CLIENT_ID, ClusterFailed, ConsoleClient
from barnabas.wire.schema import UNREADABLE, read_body, write_body
from barnabas.wire.varint import skip_tags

_HEADER: Final = struct.Struct(">ihhih")
_TIMEOUT_S: Final = 15.0


class ExtraApi(NamedTuple):
    """An API by number, in a flexible version; `name` is that of its messages."""

    key: int
    version: int
    name: str


WRITE_TXN_MARKERS: Final = ExtraApi(27, 1, "WriteTxnMarkers")
DESCRIBE_ACLS: Final = ExtraApi(29, 2, "DescribeAcls")
CREATE_ACLS: Final = ExtraApi(30, 2, "CreateAcls")
DELETE_ACLS: Final = ExtraApi(31, 2, "DeleteAcls")
DESCRIBE_QUOTAS: Final = ExtraApi(48, 1, "DescribeClientQuotas")
ALTER_QUOTAS: Final = ExtraApi(49, 1, "AlterClientQuotas")
DESCRIBE_USERS: Final = ExtraApi(50, 0, "DescribeUserScramCredentials")
ALTER_USERS: Final = ExtraApi(51, 0, "AlterUserScramCredentials")
DESCRIBE_TRANSACTIONS: Final = ExtraApi(65, 0, "DescribeTransactions")
LIST_TRANSACTIONS: Final = ExtraApi(66, 0, "ListTransactions")


@cache
def _type(api: ExtraApi, suffix: str) -> Any:
    kind = EntityType.request if suffix == "Request" else EntityType.response
    return getattr(load_payload_module(api.key, api.version, kind), f"{api.name}{suffix}")


async def ask_extra(client: ConsoleClient, broker: int, api: ExtraApi, request: Any) -> Any:
    """The response of this broker. Raises ClusterFailed."""
    body = write_body(_type(api, "Request"), request)
    name = CLIENT_ID.encode()

    def frame(number: int) -> bytes:
        header = _HEADER.pack(0, api.key, api.version, number, len(name)) + name + b"\0"
        return sized(bytearray(header) + body)

    response = await client.exchange(client.address_of(broker), frame, _TIMEOUT_S)
    try:
        return read_body(_type(api, "Response"), response[skip_tags(response, 0) :])
    except UNREADABLE as failure:
        raise ClusterFailed(f"{api.name}: the response cannot be read: {failure}") from None


async def ask_any(client: ConsoleClient, api: ExtraApi, request: Any) -> Any:
    """The response of the controller, or of any broker if none is known: both forward it."""
    view = await client.view()
    broker = view.controller if view.controller in view.ids else view.ids[0]
    return await ask_extra(client, broker, api, request)
