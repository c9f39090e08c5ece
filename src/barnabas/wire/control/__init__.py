"""The messages that kio has no schemas for, most of them between brokers and their controller.

A message's module is loaded when its type is first used: a broker needs few of them to start.
"""

from importlib import import_module
from typing import Any, Final

from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.message_schema import at_version

# The module of each message.
_MODULES: Final = {
    ApiKey.LEADER_AND_ISR: "leader_and_isr",
    ApiKey.STOP_REPLICA: "stop_replica",
    ApiKey.UPDATE_METADATA: "update_metadata",
    ApiKey.CONTROLLED_SHUTDOWN: "controlled_shutdown",
    ApiKey.DESCRIBE_CONTROLLER: "describe_controller",
    ApiKey.DESCRIBE_CLOCK: "describe_clock",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.CREATE_DELEGATION_TOKEN: "delegation_token",
    ApiKey.RENEW_DELEGATION_TOKEN: "delegation_token",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "delegation_token",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "delegation_token",
}


def control_request(key: ApiKey, version: int) -> type[Any] | None:
    """The type of this request; None if kio has it."""
    if key is ApiKey.ALTER_PARTITION and version <= 1:
        return at_version(_named("alter_partition", "AlterPartitionRequestV1"), version)
    return _type(key, version, "Request")


def control_response(key: ApiKey, version: int) -> type[Any] | None:
    """The type of this response; None if kio has it."""
    if (key, version) == (ApiKey.LEADER_AND_ISR, 4):
        return _named("leader_and_isr", "LeaderAndIsrResponseV4")
    if key is ApiKey.ALTER_PARTITION and version <= 1:
        return at_version(_named("alter_partition", "AlterPartitionResponseV1"), version)
    return _type(key, version, "Response")


def _type(key: ApiKey, version: int, kind: str) -> type[Any] | None:
    if key not in _MODULES:
        return None
    newest = _named(_MODULES[key], key.name.title().replace("_", "") + kind)
    is_flexible = version >= APIS[key].flexible
    return newest if version == APIS[key].highest else at_version(newest, version, is_flexible)


def _named(module: str, name: str) -> type[Any]:
    found: type[Any] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
