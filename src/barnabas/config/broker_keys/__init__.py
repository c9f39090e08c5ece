"""The broker config keys of Kafka 3.9 in ZooKeeper mode, one table for each subject."""

from typing import Final

from barnabas.config.broker_keys import (
    coordination_keys,
    coordinators_keys,
    logs_keys,
    network_keys,
    observation_keys,
    replication_keys,
    security_keys,
    tls_keys,
)
from barnabas.config.config_key import ConfigKey
from barnabas.config.config_table import read_keys

TABLES: Final = {
    "Identity and coordination": coordination_keys.KEYS,
    "Listeners and connections": network_keys.KEYS,
    "Logs and their retention": logs_keys.KEYS,
    "Replication and balancing": replication_keys.KEYS,
    "Groups and transactions": coordinators_keys.KEYS,
    "Quotas and metrics": observation_keys.KEYS,
    "Authentication and authorization": security_keys.KEYS,
    "TLS": tls_keys.KEYS,
}

BROKER_KEYS: Final[dict[str, ConfigKey]] = {
    name: key for table in TABLES.values() for name, key in read_keys(table).items()
}


def broker_key(name: str) -> ConfigKey | None:
    """The key of this name, which may have the prefix of a listener (and SASL mechanism)."""
    if name in BROKER_KEYS or not name.startswith("listener.name."):
        return BROKER_KEYS.get(name)
    of_listener = name.removeprefix("listener.name.").partition(".")[2]
    return BROKER_KEYS.get(of_listener) or BROKER_KEYS.get(of_listener.partition(".")[2])
