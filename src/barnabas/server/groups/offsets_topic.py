"""`__consumer_offsets`, the internal topic of groups: how it is created and compressed."""

from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.wire.records.compression import Codec

OFFSETS_TOPIC: Final = "__consumer_offsets"
# The most replicas unless the operator sets their number: never more than there are brokers.
_ENOUGH: Final = 3
# Brokers that are started together have joined within this time.
JOINED_WITHIN_S: Final = 10.0


def awaits_brokers(config: BrokerConfig, brokers: int, up_s: float) -> bool:
    """Whether more brokers may join soon, and the topic should not have fewer replicas for good.

    `up_s` is how long this broker has been up. A broker without ZooKeeper stays alone, and an
    operator who sets the replication factor decides it.
    """
    return (
        up_s < JOINED_WITHIN_S
        and brokers < _ENOUGH
        and bool(config.optional_str("zookeeper.connect"))
        and not config.is_set("offsets.topic.replication.factor")
    )


def new_offsets_topic(config: BrokerConfig, brokers: int) -> NewTopic:
    """The topic to create when the first client asks for a coordinator."""
    replication_factor = config.int("offsets.topic.replication.factor")
    if not config.is_set("offsets.topic.replication.factor"):
        replication_factor = max(1, min(brokers, _ENOUGH))
    return NewTopic(
        OFFSETS_TOPIC,
        partitions=config.int("offsets.topic.num.partitions"),
        replication_factor=replication_factor,
        overrides={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.int("offsets.topic.segment.bytes")),
        },
    )


def codec_of(config: BrokerConfig) -> Codec:
    """The compression of the records of groups.

    Raises  ConfigError, if the number is no codec's
    """
    number = config.int("offsets.topic.compression.codec")
    try:
        return Codec(number)
    except ValueError:
        known = ", ".join(f"{codec.value} is {codec.name.lower()}" for codec in Codec)
        raise ConfigError(
            f"offsets.topic.compression.codec={number}: there is no such codec; {known}"
        ) from None
