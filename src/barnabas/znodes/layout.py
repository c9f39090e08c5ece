"""The values of Kafka's znodes, byte for byte as Kafka 3.9 writes them; paths.py has the paths.

Kafka's JSON has its keys in the order of Scala's (2.13) maps: immutable maps of up
to four keys in source order, all others by hash. The encoders keep that order, so
that a comparison of two clusters shows no difference. Keys that are data
(partitions, properties, listeners) come in the order the caller gives them.

The decoders accept any order and ignore unknown keys. A value that cannot be
decoded raises MalformedZnode with the path.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.base.ids import BrokerId, LeaderEpoch, ProducerId, TopicPartition
from barnabas.znodes.json_fields import broker_ids, integer, mapping, parsed, reading, text, to_json
from barnabas.znodes.paths import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    FEATURE,
    PRODUCER_ID_BLOCK,
    REASSIGN_PARTITIONS,
    ConfigEntity,
    broker_path,
    config_path,
    partition_state_path,
    topic_path,
    uuid_from_text,
    uuid_text,
)

# Cluster


_CLUSTER_ID_VERSION: Final = 1


def encode_cluster_id(cluster_id: str) -> bytes:
    return to_json({"version": str(_CLUSTER_ID_VERSION), "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """The id of the cluster. Raises MalformedZnode, also if a newer release wrote the tree."""
    with reading(CLUSTER_ID):
        fields = parsed(data)
        version = int(str(fields.get("version", _CLUSTER_ID_VERSION)))
        if version > _CLUSTER_ID_VERSION:
            raise ValueError(
                f"version {version} is newer than {_CLUSTER_ID_VERSION}, which this release knows:"
                " use the release that wrote it, or a newer one"
            )
        return text(fields["id"])


# Brokers


class Endpoint(NamedTuple):
    """The address of one of a broker's listeners."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class VersionRange(NamedTuple):
    """The versions of a feature that a broker supports, both ends included."""

    min_version: int
    max_version: int


_FIRST_EPOCH: Final = "barnabas_first_epoch"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The registration of a live broker. The czxid of its node is the broker epoch.

    Without features (None) it is encoded as version 4, as before Kafka 2.7. `first_epoch` is the
    broker epoch in which this process registered first, if its session expired since: Kafka has no
    such key, and ignores it.
    """

    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, VersionRange] | None = field(default_factory=dict)
    first_epoch: int | None = None


def encode_broker(broker: BrokerRegistration) -> bytes:
    # Host and port are for old clients that support only one listener, without security.
    plaintext = (each for each in broker.endpoints if each.security_protocol == "PLAINTEXT")
    first = next(plaintext, None)
    features = broker.features
    return to_json(
        {
            **({} if features is None else {"features": _ranges(features)}),
            "listener_security_protocol_map": {
                each.listener: each.security_protocol for each in broker.endpoints
            },
            "endpoints": [str(each) for each in broker.endpoints],
            **({} if broker.rack is None else {"rack": broker.rack}),
            "jmx_port": broker.jmx_port,
            "port": first.port if first else -1,
            "host": first.host if first else None,
            "version": 4 if features is None else 5,
            "timestamp": str(broker.timestamp_ms),
            **({} if broker.first_epoch is None else {_FIRST_EPOCH: broker.first_epoch}),
        }
    )


def decode_broker(broker_id: BrokerId, data: bytes) -> BrokerRegistration:
    """Decode any version since 1; `features` is None below 5."""
    with reading(broker_path(broker_id)):
        fields = parsed(data)
        version, rack = integer(fields["version"]), fields.get("rack")
        features = mapping(fields.get("features") or {})
        first_epoch = fields.get(_FIRST_EPOCH)
        return BrokerRegistration(
            endpoints=_endpoints(fields, version),
            timestamp_ms=int(fields.get("timestamp", -1)),
            rack=None if rack is None else text(rack),
            jmx_port=integer(fields.get("jmx_port", -1)),
            features=None if version < 5 else {name: _range(of) for name, of in features.items()},
            first_epoch=None if first_epoch is None else integer(first_epoch),
        )


_ENDPOINT: Final = re.compile(r"(?P<listener>.*)://\[?(?P<host>[^\[\]]*)\]?:(?P<port>-?\d+)")
_PROTOCOLS: Final = {name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}


def _endpoints(fields: dict[str, Any], version: int) -> tuple[Endpoint, ...]:
    if version == 1:
        return (Endpoint("PLAINTEXT", text(fields["host"]), integer(fields["port"])),)
    protocols = mapping(fields.get("listener_security_protocol_map", _PROTOCOLS))
    return tuple(_endpoint(text(each), protocols) for each in fields["endpoints"])


def _endpoint(address: str, protocols: dict[str, Any]) -> Endpoint:
    match = _ENDPOINT.fullmatch(address)
    if match is None:
        raise ValueError(f"{address!r} is not an endpoint")
    listener = match["listener"].upper()
    return Endpoint(listener, match["host"], int(match["port"]), text(protocols[listener]))


def _ranges(features: Mapping[str, VersionRange]) -> dict[str, dict[str, int]]:
    return {
        name: {"min_version": each.min_version, "max_version": each.max_version}
        for name, each in features.items()
    }


def _range(value: dict[str, Any]) -> VersionRange:
    return VersionRange(integer(value["min_version"]), integer(value["max_version"]))


# Controller


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """The broker that is the controller."""

    broker_id: BrokerId
    timestamp_ms: int
    kraft_controller_epoch: int = -1


def encode_controller(controller: ControllerRegistration) -> bytes:
    return to_json(
        {
            "version": 2,
            "brokerid": controller.broker_id,
            "timestamp": str(controller.timestamp_ms),
            "kraftControllerEpoch": controller.kraft_controller_epoch,
        }
    )


def decode_controller(data: bytes) -> ControllerRegistration:
    with reading(CONTROLLER):
        fields = parsed(data)
        return ControllerRegistration(
            broker_id=BrokerId(integer(fields["brokerid"])),
            timestamp_ms=int(fields.get("timestamp", -1)),
            kraft_controller_epoch=integer(fields.get("kraftControllerEpoch", -1)),
        )


def encode_controller_epoch(epoch: int) -> bytes:
    return b"%d" % epoch


def decode_controller_epoch(data: bytes) -> int:
    with reading(CONTROLLER_EPOCH):
        return int(data)


# Topics and partitions


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The replicas of each partition, the preferred leader first.

    `adding` and `removing` have the partitions that are being reassigned.
    """

    partitions: Mapping[int, tuple[BrokerId, ...]]
    topic_id: uuid.UUID | None = None
    adding: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)


def encode_topic(topic: TopicAssignment) -> bytes:
    return to_json(
        {
            "partitions": _replicas(topic.partitions),
            **({} if topic.topic_id is None else {"topic_id": uuid_text(topic.topic_id)}),
            "adding_replicas": _replicas(topic.adding),
            "removing_replicas": _replicas(topic.removing),
            "version": 3,
        }
    )


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    with reading(topic_path(topic)):
        fields = parsed(data)
        topic_id = fields.get("topic_id")
        return TopicAssignment(
            partitions=_assignment(fields.get("partitions", {})),
            topic_id=None if topic_id is None else uuid_from_text(text(topic_id)),
            adding=_assignment(fields.get("adding_replicas", {})),
            removing=_assignment(fields.get("removing_replicas", {})),
        )


def _replicas(assignment: Mapping[int, tuple[BrokerId, ...]]) -> dict[str, tuple[BrokerId, ...]]:
    return {str(partition): replicas for partition, replicas in assignment.items()}


def _assignment(value: object) -> dict[int, tuple[BrokerId, ...]]:
    return {int(partition): broker_ids(ids) for partition, ids in mapping(value).items()}


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The `state` of a partition: its leader (-1: none) and its ISR.

    The data version of its node is the partition epoch. `recovering` means that the
    leader was elected uncleanly and has not recovered yet.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    controller_epoch: int
    isr: tuple[BrokerId, ...]
    recovering: bool = False


def encode_partition_state(state: LeaderAndIsr) -> bytes:
    return to_json(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            **({"leader_recovery_state": 1} if state.recovering else {}),
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    )


def decode_partition_state(partition: TopicPartition, data: bytes) -> LeaderAndIsr:
    with reading(partition_state_path(partition)):
        fields = parsed(data)
        return LeaderAndIsr(
            leader=BrokerId(integer(fields["leader"])),
            leader_epoch=LeaderEpoch(integer(fields["leader_epoch"])),
            controller_epoch=integer(fields["controller_epoch"]),
            isr=broker_ids(fields["isr"]),
            recovering=integer(fields.get("leader_recovery_state", 0)) == 1,
        )


def encode_reassignment(reassignment: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
    partitions = [
        {"topic": topic, "partition": partition, "replicas": replicas}
        for (topic, partition), replicas in reassignment.items()
    ]
    return to_json({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    with reading(REASSIGN_PARTITIONS):
        entries = parsed(data)["partitions"]
        return {_partition(entry): broker_ids(entry["replicas"]) for entry in entries}


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """The value of an ISR change notification, and of a preferred replica election."""
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return to_json({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    with reading(path):
        return [_partition(entry) for entry in parsed(data)["partitions"]]


def _partition(entry: dict[str, Any]) -> TopicPartition:
    return TopicPartition(text(entry["topic"]), integer(entry["partition"]))


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    return to_json({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> BrokerId:
    """The broker that lost a log directory."""
    with reading(path):
        return BrokerId(integer(parsed(data)["broker"]))


# Configuration


def encode_config(properties: Mapping[str, str]) -> bytes:
    return to_json({"version": 1, "config": dict(properties)})


def decode_config(entity: ConfigEntity, data: bytes) -> dict[str, str]:
    """The entity's properties; none for a node without data, which only has children."""
    with reading(config_path(entity)):
        properties = mapping(parsed(data).get("config", {})) if data else {}
        return {key: text(value) for key, value in properties.items()}


def encode_config_change(entity: ConfigEntity) -> bytes:
    return to_json({"version": 2, "entity_path": entity})


def decode_config_change(path: str, data: bytes) -> ConfigEntity:
    with reading(path):
        fields = parsed(data)
        match integer(fields["version"]):
            case 1:
                kind, name = text(fields["entity_type"]), text(fields["entity_name"])
                return ConfigEntity(f"{kind}/{name}")
            case 2:
                return ConfigEntity(text(fields["entity_path"]))
            case version:
                raise ValueError(f"version {version} is neither 1 nor 2")


# Producer ids and features


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The producer ids [start, end) allocated to a broker; the next block begins at `end`."""

    broker_id: BrokerId
    start: ProducerId
    end: ProducerId


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return to_json(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.start),
            "block_end": str(block.end - 1),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """None if no block was allocated yet."""
    if not data:
        return None
    with reading(PRODUCER_ID_BLOCK):
        fields = parsed(data)
        return ProducerIdBlock(
            broker_id=BrokerId(integer(fields["broker"])),
            start=ProducerId(int(text(fields["block_start"]))),
            end=ProducerId(int(text(fields["block_end"])) + 1),
        )


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The feature levels that the whole cluster uses. Version 1 was before Kafka 3.3."""

    enabled: bool = True
    levels: Mapping[str, int] = field(default_factory=dict)
    version: int = 2


def encode_features(features: FinalizedFeatures) -> bytes:
    levels = {
        name: {"max_version_level": level}
        | ({"min_version_level": level} if features.version == 1 else {})
        for name, level in features.levels.items()
    }
    status = 1 if features.enabled else 0
    return to_json({"features": levels, "version": features.version, "status": status})


def decode_features(data: bytes) -> FinalizedFeatures:
    with reading(FEATURE):
        fields = parsed(data)
        version, status = integer(fields["version"]), integer(fields["status"])
        if version not in (1, 2) or status not in (0, 1):
            raise ValueError(f"version {version} or status {status} is unknown")
        levels = {
            name: integer(mapping(level)["max_version_level"])
            for name, level in mapping(fields["features"]).items()
        }
        return FinalizedFeatures(status == 1, levels, version)


# Consumers


def encode_consumer_offset(offset: int) -> bytes:
    return str(offset).encode()


def decode_consumer_offset(path: str, data: bytes) -> int | None:
    """None for a node without data, which is as good as none."""
    with reading(path):
        return int(data) if data else None
