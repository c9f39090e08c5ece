"""Every broker key of Kafka 3.9 that a ZooKeeper-coordinated broker knows, a table per idea."""

from typing import Final

from barnabas.base.broker_keys import (
    coordination,
    coordinators,
    logs,
    network,
    observation,
    replication,
    security,
    tls,
)
from barnabas.base.config import ConfigKey
from barnabas.base.config_table import read_keys

TABLES: Final = {
    "Identity and coordination": coordination.KEYS,
    "Listeners and connections": network.KEYS,
    "Logs and their retention": logs.KEYS,
    "Replication and balancing": replication.KEYS,
    "Groups and transactions": coordinators.KEYS,
    "Quotas and metrics": observation.KEYS,
    "Authentication and authorization": security.KEYS,
    "TLS": tls.KEYS,
}

BROKER_KEYS: Final[dict[str, ConfigKey]] = {
    name: key for table in TABLES.values() for name, key in read_keys(table).items()
}


def broker_key(name: str) -> ConfigKey | None:
    """The key called `name`, also for one listener (and its SASL mechanism) in particular."""
    if name in BROKER_KEYS or not name.startswith("listener.name."):
        return BROKER_KEYS.get(name)
    of_listener = name.removeprefix("listener.name.").partition(".")[2]
    return BROKER_KEYS.get(of_listener) or BROKER_KEYS.get(of_listener.partition(".")[2])
