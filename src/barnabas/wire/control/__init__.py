"""The messages between brokers and their controller that kio has no schemas for.

A message's module is loaded when its type is first used: a broker needs few of them to start.
"""

from importlib import import_module
from typing import Any, Final

from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.message_schema import at_version

# The module of each message; its types are named after it.
_MODULES: Final = {
    ApiKey.LEADER_AND_ISR: "leader_and_isr",
    ApiKey.STOP_REPLICA: "stop_replica",
    ApiKey.UPDATE_METADATA: "update_metadata",
    ApiKey.CONTROLLED_SHUTDOWN: "controlled_shutdown",
    ApiKey.DESCRIBE_CONTROLLER: "describe_controller",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
}


def control_request(key: ApiKey, version: int) -> type[Any] | None:
    """The type of this request; None if kio has it."""
    if key is ApiKey.ALTER_PARTITION and version <= 1:
        return at_version(_named("alter_partition", "RequestV1"), version)
    return _type(key, version, "Request")


def control_response(key: ApiKey, version: int) -> type[Any] | None:
    """The type of this response; None if kio has it."""
    if (key, version) == (ApiKey.LEADER_AND_ISR, 4):
        return _named("leader_and_isr", "ResponseV4")
    if key is ApiKey.ALTER_PARTITION and version <= 1:
        return at_version(_named("alter_partition", "ResponseV1"), version)
    return _type(key, version, "Response")


def _type(key: ApiKey, version: int, kind: str) -> type[Any] | None:
    if key not in _MODULES:
        return None
    newest = _named(_MODULES[key], kind)
    return newest if version == APIS[key].highest else at_version(newest, version)


def _named(module: str, kind: str) -> type[Any]:
    name = module.title().replace("_", "") + kind
    found: type[Any] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
