"""`__consumer_offsets`: which partition a group has, and how the topic is made."""

from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.cluster.topic_admin import NewTopic
from barnabas.wire.records.compression import Codec

OFFSETS_TOPIC: Final = "__consumer_offsets"
# As many replicas as there are brokers, but no more than this, where nobody says how many.
_ENOUGH: Final = 3


def partition_of(group_id: str, partitions: int) -> int:
    """As Kafka's: the group's name, hashed as Java hashes it."""
    value = 0
    for unit in _utf16(group_id):
        value = (31 * value + unit) & 0xFFFFFFFF
    # Kafka's abs() of an integer, which makes the one without a positive twin 0.
    signed = value - (1 << 32) if value & 0x80000000 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def _utf16(text: str) -> memoryview:
    return memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")


def new_offsets_topic(config: BrokerConfig, brokers: int) -> NewTopic:
    """What to ask for when the first group asks for its coordinator."""
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
    """How the records of groups are compressed.

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
