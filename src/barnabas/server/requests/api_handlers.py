"""The handler of each API, but for Produce, Fetch and the requests of a controller.

The module of an API has its name. The first request imports it, or a task some time after the
start: a broker that loaded the schemas of all messages would take a third longer to be ready, and
the first client needs three of them.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from barnabas.base.at_once import at_once
from barnabas.server.broker import Broker
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.handlers import api_versions
from barnabas.server.requests.dispatch import MessageHandler
from barnabas.wire.apis import ApiKey

LOADED_WHEN_ASKED: Final = (
    ApiKey.METADATA,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.DESCRIBE_CONTROLLER,
    ApiKey.DESCRIBE_CLOCK,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)
# With a single replica nothing in a transaction has to wait: these need no task then.
BEGUN_AT_ONCE: Final = frozenset(
    {
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)
# Versions that mean something else than those after them, each with a module of its own.
_APART: Final = ((ApiKey.LIST_OFFSETS, 0), (ApiKey.OFFSET_COMMIT, 0), (ApiKey.OFFSET_FETCH, 0))


def _module_of(key: ApiKey, version: int | None = None) -> str:
    suffix = f"_v{version}" if (key, version) in _APART else ""
    return f"barnabas.server.handlers.{key.name.lower()}{suffix}"


# All that is not loaded before a broker is ready.
LATE_MODULES: Final = (
    *map(_module_of, LOADED_WHEN_ASKED),
    # The last of them needs these; step by step they hold the loop for a shorter time.
    "barnabas.groups.classic.classic_turn",
    "barnabas.groups.consumer.consumer_groups",
    "barnabas.groups.shard",
    "barnabas.server.groups.group_imports",
)


@cache
def _load(key: ApiKey, version: int) -> Callable[..., Any]:
    """The handler of an API; what it needs is given to it before the request."""
    handle: Callable[..., Any] = import_module(_module_of(key, version)).handle
    return handle


def message_handlers(broker: Broker, delayed: Delayed) -> dict[ApiKey, MessageHandler]:
    """Every API that is served message by message."""
    return {
        **{key: _when_asked(key, broker) for key in LOADED_WHEN_ASKED},
        ApiKey.DELETE_RECORDS: _when_asked(ApiKey.DELETE_RECORDS, broker, delayed),
        ApiKey.API_VERSIONS: partial(api_versions.handle, broker.features),
    }


def _when_asked(key: ApiKey, *given: object) -> MessageHandler:
    if key in BEGUN_AT_ONCE:
        return lambda request, call: at_once(_load(key, call.version)(*given, request, call))
    return lambda request, call: _load(key, call.version)(*given, request, call)
