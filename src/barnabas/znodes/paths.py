"""The paths of Kafka's znodes, and the encoding of names in them."""

import base64
import urllib.parse
import uuid
from typing import Final, NewType

from barnabas.base.ids import BrokerId, TopicPartition

CLUSTER_ID: Final = "/cluster/id"
CONSUMERS: Final = "/consumers"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE_ID: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
USERS: Final = "/config/users"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"

# Every starting broker creates these if they are missing, without data.
PERSISTENT_PATHS: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    *(f"{CONFIG}/{kind}" for kind in ("topics", "clients", "users", "brokers", "ips")),
)

# The prefixes of sequential nodes; the tree appends ten digits.
ISR_CHANGE: Final = f"{ISR_CHANGE_NOTIFICATION}/isr_change_"
LOG_DIR_EVENT: Final = f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
CONFIG_CHANGE: Final = f"{CONFIG_CHANGES}/config_change_"


def broker_path(broker_id: BrokerId) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{topic_path(topic)}/partitions"


def partition_path(partition: TopicPartition) -> str:
    return f"{partitions_path(partition.topic)}/{partition.partition}"


def partition_state_path(partition: TopicPartition) -> str:
    return f"{partition_path(partition)}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def consumer_offset_path(group_id: str, partition: TopicPartition) -> str:
    """An offset that a client of Kafka 0.8.1 has committed."""
    return f"{CONSUMERS}/{group_id}/offsets/{partition.topic}/{partition.partition}"


def sequence_number(path: str) -> int:
    """The number that the tree appended to a sequential node's path or name."""
    return int(path.rpartition("_")[2])


# A config entity: its path below /config, as change notifications name it.
ConfigEntity = NewType("ConfigEntity", str)

_DEFAULT: Final = "<default>"


def topic_entity(topic: str) -> ConfigEntity:
    return ConfigEntity(f"topics/{topic}")


def broker_entity(broker_id: BrokerId | None) -> ConfigEntity:
    """One broker's config entity, or (None) the default of all brokers."""
    return ConfigEntity(f"brokers/{_DEFAULT if broker_id is None else broker_id}")


def sanitized(name: str) -> str:
    """A user or client id as part of a path: Java's URLEncoder, as Kafka's Sanitizer uses it."""
    return urllib.parse.quote(name, safe="").replace("~", "%7E")


def desanitized(name: str) -> str:
    return urllib.parse.unquote(name)


def user_entity(user: str) -> ConfigEntity:
    return user_entity_at(sanitized(user))


def user_entity_at(node: str) -> ConfigEntity:
    """The config entity of the user whose node has this name."""
    return ConfigEntity(f"users/{node}")


def config_path(entity: ConfigEntity) -> str:
    return f"{CONFIG}/{entity}"


def uuid_text(value: uuid.UUID) -> str:
    """A topic or cluster id as Kafka writes it: 22 characters of base64url."""
    return base64.urlsafe_b64encode(value.bytes)[:22].decode("ascii")


def uuid_from_text(text: str) -> uuid.UUID:
    """Raises ValueError unless `text` is base64url of 16 bytes."""
    try:
        decoded = base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
        return uuid.UUID(bytes=decoded)
    except ValueError as error:
        raise ValueError(f"{text!r} is not 16 bytes in base64url") from error
