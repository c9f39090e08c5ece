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
