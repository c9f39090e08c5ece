"""`__consumer_offsets`, the internal topic of groups: how it is created and compressed."""

from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.server.coordinators.internal_topics import replicas_of
from barnabas.wire.records.compression import Codec

OFFSETS_TOPIC: Final = "__consumer_offsets"
REPLICATION_FACTOR: Final = "offsets.topic.replication.factor"


def new_offsets_topic(config: BrokerConfig, brokers: int) -> NewTopic:
    """The topic to create when the first client asks for a coordinator."""
    return NewTopic(
        OFFSETS_TOPIC,
        partitions=config.int("offsets.topic.num.partitions"),
        replication_factor=replicas_of(config, REPLICATION_FACTOR, brokers),
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
