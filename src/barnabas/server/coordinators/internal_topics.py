"""Internal topics that clients cause to be created: when, and with how many replicas."""

from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.config.broker_config import BrokerConfig

# The most replicas unless the operator sets their number: never more than there are brokers.
_ENOUGH: Final = 3
# Brokers that are started together have joined within this time.
JOINED_WITHIN_S: Final = 10.0


def check_brokers(
    topic: str, config: BrokerConfig, replication_factor: str, brokers: int, up_s: float
) -> None:
    """Refuse to create the topic while more brokers may join: it would keep too few replicas.

    `up_s` is how long this broker has been up. A broker without ZooKeeper stays alone, and an
    operator who sets the property of the replication factor decides it.

    Raises  BrokerError(coordinator_not_available)
    """
    if (
        up_s < JOINED_WITHIN_S
        and brokers < _ENOUGH
        and config.optional_str("zookeeper.connect")
        and not config.is_set(replication_factor)
    ):
        why = f"{topic} is created when more brokers have joined, or soon without them"
        raise BrokerError(ErrorCode.coordinator_not_available, why)


def replicas_of(config: BrokerConfig, replication_factor: str, brokers: int) -> int:
    """How many replicas the topic gets: as configured, else as many as there are brokers."""
    if config.is_set(replication_factor):
        return config.int(replication_factor)
    return max(1, min(brokers, _ENOUGH))
