"""Znode values, byte for byte as running Kafka clusters keep them in ZooKeeper."""

import json
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import BrokerId, LeaderEpoch, ProducerId, TopicPartition
from barnabas.znodes import layout, paths
from barnabas.znodes.layout import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    FinalizedFeatures,
    LeaderAndIsr,
    ProducerIdBlock,
    TopicAssignment,
    VersionRange,
)
from barnabas.znodes.tree import MalformedZnode

B0, B1, B2, B3 = map(BrokerId, range(4))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ISR_CHANGE = f"{paths.ISR_CHANGE}0000000007"
LOG_DIR_EVENT = f"{paths.LOG_DIR_EVENT}0000000000"

PLAIN_BROKER = BrokerRegistration(
    (Endpoint("PLAINTEXT", "server1", 9092),), timestamp_ms=1704032948949
)
TWO_LISTENERS = BrokerRegistration(
    (Endpoint("BROKER", "fd00::1", 9093, "SASL_SSL"), Endpoint("CLIENT", "h", 9092)),
    timestamp_ms=1,
    rack="r1",
    jmx_port=9999,
    features={"metadata.version": VersionRange(1, 21)},
)
ONLY_TLS = BrokerRegistration((Endpoint("SSL", "h", 9093, "SSL"),), 1, features=None)
REASSIGNED = TopicAssignment(
    partitions={0: (B2, B3, B1), 1: (B1,)},
    topic_id=paths.uuid_from_text("cMr3GpVESX2L3byPGf93lQ"),
    adding={0: (B3,)},
    removing={0: (B1,)},
)


def both(
    golden: bytes, value: object, encode: Callable[[], bytes], decode: Callable[[bytes], object]
) -> None:
    """The encoder writes the golden value; the decoder reads it, with its keys in any order."""
    assert encode() == golden
    assert decode(golden) == value
    turned = dict(reversed(json.loads(golden).items())) | {"a key of tomorrow": {"x": [1]}}
    assert decode(json.dumps(turned, indent=1).encode()) == value


def test_cluster_id_is_as_kafka_keeps_it() -> None:
    both(
        b'{"version":"1","id":"eQzK4lYlQ9y8P21IScOl_g"}',
        "eQzK4lYlQ9y8P21IScOl_g",
        lambda: layout.encode_cluster_id("eQzK4lYlQ9y8P21IScOl_g"),
        layout.decode_cluster_id,
    )


@pytest.mark.parametrize(
    ("golden", "broker"),
    [
        (
            b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
            b'"endpoints":["PLAINTEXT://server1:9092"],"jmx_port":-1,"port":9092,'
            b'"host":"server1","version":5,"timestamp":"1704032948949"}',
            PLAIN_BROKER,
        ),
        (
            b'{"features":{"metadata.version":{"min_version":1,"max_version":21}},'
            b'"listener_security_protocol_map":{"BROKER":"SASL_SSL","CLIENT":"PLAINTEXT"},'
            b'"endpoints":["BROKER://[fd00::1]:9093","CLIENT://h:9092"],"rack":"r1",'
            b'"jmx_port":9999,"port":9092,"host":"h","version":5,"timestamp":"1"}',
            TWO_LISTENERS,
        ),
        (
            b'{"listener_security_protocol_map":{"SSL":"SSL"},"endpoints":["SSL://h:9093"],'
            b'"jmx_port":-1,"port":-1,"host":null,"version":4,"timestamp":"1"}',
            ONLY_TLS,
        ),
    ],
)
def test_broker_registration_is_as_kafka_keeps_it(
    golden: bytes, broker: BrokerRegistration
) -> None:
    both(
        golden,
        broker,
        lambda: layout.encode_broker(broker),
        lambda data: layout.decode_broker(B1, data),
    )


def test_a_registration_after_an_expired_session_has_the_epoch_of_the_first_one() -> None:
    again = replace(PLAIN_BROKER, first_epoch=77)
    first, second = layout.encode_broker(PLAIN_BROKER), layout.encode_broker(again)
    assert second == first.removesuffix(b"}") + b',"barnabas_first_epoch":77}'
    assert layout.decode_broker(B1, second) == again


def test_registrations_of_old_brokers_are_read() -> None:
    v1 = b'{"jmx_port":9999,"timestamp":"2233345666","host":"h","version":1,"port":9092}'
    assert layout.decode_broker(B0, v1) == BrokerRegistration(
        (Endpoint("PLAINTEXT", "h", 9092),), 2233345666, jmx_port=9999, features=None
    )
    v3 = b'{"version":3,"endpoints":["SSL://h:9093"],"host":null,"port":-1,"rack":"dc1"}'
    assert layout.decode_broker(B0, v3) == BrokerRegistration(
        (Endpoint("SSL", "h", 9093, "SSL"),), -1, rack="dc1", features=None
    )


def test_controller_and_its_epoch() -> None:
    both(
        b'{"version":2,"brokerid":1,"timestamp":"1704032949256","kraftControllerEpoch":-1}',
        ControllerRegistration(B1, 1704032949256),
        lambda: layout.encode_controller(ControllerRegistration(B1, 1704032949256)),
        layout.decode_controller,
    )
    v1 = b'{"version":1,"brokerid":2,"timestamp":"1673382716473"}'
    assert layout.decode_controller(v1) == ControllerRegistration(B2, 1673382716473)
    assert layout.encode_controller_epoch(12) == b"12"
    assert layout.decode_controller_epoch(b"12") == 12


@pytest.mark.parametrize(
    ("golden", "topic"),
    [
        (
            b'{"partitions":{"0":[2,3,1],"1":[1]},"topic_id":"cMr3GpVESX2L3byPGf93lQ",'
            b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]},"version":3}',
            REASSIGNED,
        ),
        (
            b'{"partitions":{"0":[0]},"adding_replicas":{},"removing_replicas":{},"version":3}',
            TopicAssignment({0: (B0,)}),
        ),
    ],
)
def test_topic_assignment_is_as_kafka_keeps_it(golden: bytes, topic: TopicAssignment) -> None:
    both(
        golden,
        topic,
        lambda: layout.encode_topic(topic),
        lambda data: layout.decode_topic("t", data),
    )


def test_an_assignment_of_version_1_is_read() -> None:
    v1 = b'{"version":1,"partitions":{"1":[2],"0":[1]}}'
    assert layout.decode_topic("t", v1) == TopicAssignment({0: (B1,), 1: (B2,)})


@pytest.mark.parametrize(
    ("golden", "state"),
    [
        (
            b'{"controller_epoch":20,"leader":1,"version":1,"leader_epoch":2,"isr":[1,0]}',
            LeaderAndIsr(B1, LeaderEpoch(2), 20, (B1, B0)),
        ),
        (
            b'{"controller_epoch":1,"leader":-1,"version":1,"leader_recovery_state":1,'
            b'"leader_epoch":0,"isr":[2]}',
            LeaderAndIsr(BrokerId(-1), LeaderEpoch(0), 1, (B2,), recovering=True),
        ),
    ],
)
def test_partition_state_is_as_kafka_keeps_it(golden: bytes, state: LeaderAndIsr) -> None:
    both(
        golden,
        state,
        lambda: layout.encode_partition_state(state),
        lambda data: layout.decode_partition_state(T0, data),
    )


def test_reassignment_election_and_notifications() -> None:
    reassignment = {T0: (B1, B2), T1: (B0,)}
    both(
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
        b'{"topic":"t","partition":1,"replicas":[0]}]}',
        reassignment,
        lambda: layout.encode_reassignment(reassignment),
        layout.decode_reassignment,
    )
    both(
        b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":1}]}',
        [T0, T1],
        lambda: layout.encode_partitions([T0, T1]),
        lambda data: layout.decode_partitions(ISR_CHANGE, data),
    )
    both(
        b'{"version":1,"broker":3,"event":1}',
        B3,
        lambda: layout.encode_log_dir_event(B3),
        lambda data: layout.decode_log_dir_event(LOG_DIR_EVENT, data),
    )


def test_configuration_and_its_changes() -> None:
    properties = {"retention.ms": "123", "cleanup.policy": "compact,delete"}
    topic = paths.topic_entity("t")
    both(
        b'{"version":1,"config":{"retention.ms":"123","cleanup.policy":"compact,delete"}}',
        properties,
        lambda: layout.encode_config(properties),
        lambda data: layout.decode_config(topic, data),
    )
    assert layout.encode_config({}) == b'{"version":1,"config":{}}'
    assert layout.decode_config(topic, b"") == {}
    change = f"{paths.CONFIG_CHANGE}0000000012"
    both(
        b'{"version":2,"entity_path":"topics/t"}',
        topic,
        lambda: layout.encode_config_change(topic),
        lambda data: layout.decode_config_change(change, data),
    )
    v1 = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert layout.decode_config_change(change, v1) == topic
    assert paths.sequence_number(change) == 12


def test_producer_id_block() -> None:
    block = ProducerIdBlock(B1, ProducerId(1000), ProducerId(2000))
    both(
        b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}',
        block,
        lambda: layout.encode_producer_id_block(block),
        layout.decode_producer_id_block,
    )
    assert layout.decode_producer_id_block(b"") is None


@pytest.mark.parametrize(
    ("golden", "features"),
    [
        (b'{"features":{},"version":2,"status":1}', FinalizedFeatures()),
        (b'{"features":{},"version":1,"status":0}', FinalizedFeatures(False, version=1)),
        (
            b'{"features":{"f":{"max_version_level":3,"min_version_level":3}},'
            b'"version":1,"status":1}',
            FinalizedFeatures(levels={"f": 3}, version=1),
        ),
        (
            b'{"features":{"f":{"max_version_level":3}},"version":2,"status":1}',
            FinalizedFeatures(levels={"f": 3}),
        ),
    ],
)
def test_features_are_as_kafka_keeps_them(golden: bytes, features: FinalizedFeatures) -> None:
    both(golden, features, lambda: layout.encode_features(features), layout.decode_features)


def test_non_ascii_text_is_written_as_utf_8() -> None:
    assert layout.encode_config({"k": "grün"}) == '{"version":1,"config":{"k":"grün"}}'.encode()


def test_paths_are_where_kafka_has_them() -> None:
    assert paths.broker_path(B3) == "/brokers/ids/3"
    assert paths.partition_state_path(T1) == "/brokers/topics/t/partitions/1/state"
    assert paths.delete_topic_path("t") == "/admin/delete_topics/t"
    assert paths.config_path(paths.topic_entity("t")) == "/config/topics/t"
    assert paths.config_path(paths.broker_entity(None)) == "/config/brokers/<default>"
    assert paths.config_path(paths.broker_entity(B0)) == "/config/brokers/0"


@given(st.uuids())
def test_a_uuid_is_22_characters_and_round_trips(value: uuid.UUID) -> None:
    text = paths.uuid_text(value)
    assert len(text) == 22
    assert paths.uuid_from_text(text) == value


@pytest.mark.parametrize("text", ["", "short", "x" * 23, "cMr3GpVESX2L3byPGf93l!", "é" * 22])
def test_other_text_than_22_characters_of_base64_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="is not 16 bytes in base64url"):
        paths.uuid_from_text(text)


READERS: list[tuple[str, Callable[[bytes], object]]] = [
    (paths.CLUSTER_ID, layout.decode_cluster_id),
    ("/brokers/ids/1", lambda data: layout.decode_broker(B1, data)),
    (paths.CONTROLLER, layout.decode_controller),
    (paths.CONTROLLER_EPOCH, layout.decode_controller_epoch),
    ("/brokers/topics/t", lambda data: layout.decode_topic("t", data)),
    (paths.partition_state_path(T0), lambda data: layout.decode_partition_state(T0, data)),
    (paths.REASSIGN_PARTITIONS, layout.decode_reassignment),
    (ISR_CHANGE, lambda data: layout.decode_partitions(ISR_CHANGE, data)),
    (LOG_DIR_EVENT, lambda data: layout.decode_log_dir_event(LOG_DIR_EVENT, data)),
    ("/config/topics/t", lambda data: layout.decode_config(paths.topic_entity("t"), data)),
    (paths.CONFIG_CHANGES, lambda data: layout.decode_config_change(paths.CONFIG_CHANGES, data)),
    (paths.PRODUCER_ID_BLOCK, layout.decode_producer_id_block),
    (paths.FEATURE, layout.decode_features),
]

KEYS = re.findall(
    r"\w+",
    "version id brokerid timestamp leader leader_epoch controller_epoch isr partitions topic_id "
    "endpoints host port features status config entity_path broker block_start block_end rack "
    "listener_security_protocol_map adding_replicas topic partition replicas",
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.floats(0, 2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(("path", "read"), READERS, ids=[path for path, _ in READERS])
@pytest.mark.parametrize("data", [b" ", b"{", b"[]", b"\xff", b"1.5"])
def test_a_malformed_value_raises_an_error_with_its_path(
    path: str, read: Callable[[bytes], object], data: bytes
) -> None:
    with pytest.raises(MalformedZnode, match=f"^{path}: .") as refused:
        read(data)
    assert refused.value.path == path


@given(value=anything)
def test_no_json_makes_a_decoder_raise_another_error(value: object) -> None:
    data = json.dumps(value).encode()
    for _, read in READERS:
        with suppress(MalformedZnode):
            read(data)
