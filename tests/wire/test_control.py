"""Messages that kio lacks are, byte for byte, those of Kafka's own classes."""

import dataclasses
import json
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.client.requests import read_response
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.control.describe_clock import DescribeClockRequest, DescribeClockResponse
from barnabas.wire.control.describe_controller import (
    DescribeControllerRequest,
    DescribeControllerResponse,
)
from barnabas.wire.control.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.control.update_metadata import UpdateMetadataRequest
from barnabas.wire.schema import (
    adapt,
    newest,
    read_as_sent,
    request_type,
    response_type,
    write_response,
)
from tests.golden.messages import FILE, REQUESTS, RESPONSES, request, response, versions
from tests.support.apache_kafka import apache_kafka
from tests.support.kafka_messages import written_by_kafka
from tests.wire.entities import entities, written

GOLDEN = {name: bytes.fromhex(text) for name, text in json.loads(FILE.read_text()).items()}
EACH = [(key, version) for key in REQUESTS for version in versions(key)]
# Of these kio knows the newer versions.
OLD = [
    (ApiKey.LIST_OFFSETS, 0),
    (ApiKey.OFFSET_COMMIT, 0),
    (ApiKey.OFFSET_COMMIT, 1),
    (ApiKey.OFFSET_FETCH, 0),
    (ApiKey.CREATE_TOPICS, 0),
    (ApiKey.CREATE_TOPICS, 1),
    (ApiKey.DELETE_TOPICS, 0),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 0),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 1),
    (ApiKey.DESCRIBE_CONFIGS, 0),
    (ApiKey.DESCRIBE_LOG_DIRS, 0),
    (ApiKey.ALTER_PARTITION, 0),
    (ApiKey.ALTER_PARTITION, 1),
]
every_version = pytest.mark.parametrize(
    ("key", "version"), EACH, ids=[f"{key.name}-{version}" for key, version in EACH]
)


@every_version
def test_a_request_is_written_and_read_as_kafka_does(key: ApiKey, version: int) -> None:
    golden = GOLDEN[f"{key.name} {version} request"]
    assert written(request(key, version)) == golden
    assert read_as_sent(key, version, memoryview(golden)) == request(key, version)


@every_version
def test_a_response_is_written_and_read_as_kafka_does(key: ApiKey, version: int) -> None:
    golden = GOLDEN[f"{key.name} {version} response"]
    assert written(response(key, version)) == golden
    assert write_response(key, version, 1, response(key, version))[9:] == golden
    if version == APIS[key].highest:
        assert read_response(key, version, memoryview(b"\0" + golden)) == RESPONSES[key]


@settings(
    max_examples=3, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_any_message_is_written_as_kafka_does(data: st.DataObject) -> None:
    kafka = apache_kafka()
    messages = [
        (version, message)
        for key, version in (*EACH, *OLD)
        for kind in (request_type, response_type)
        for message in data.draw(st.lists(entities(kind(key, version)), min_size=3, max_size=3))
    ]
    theirs = written_by_kafka(kafka, messages)
    for (version, message), told in zip(messages, theirs, strict=True):
        assert written(message) == told, (version, message)


def test_the_newest_version_is_the_class_that_type_checkers_know() -> None:
    assert request_type(ApiKey.LEADER_AND_ISR, 7) is LeaderAndIsrRequest
    assert response_type(ApiKey.LEADER_AND_ISR, 7) is LeaderAndIsrResponse
    assert request_type(ApiKey.LEADER_AND_ISR, 6) is request_type(ApiKey.LEADER_AND_ISR, 6)


@pytest.mark.parametrize(
    ("key", "version", "lacks"),
    [
        (ApiKey.LEADER_AND_ISR, 6, {"is_kraft_controller"}),
        (ApiKey.LEADER_AND_ISR, 4, {"is_kraft_controller", "type"}),
        (ApiKey.STOP_REPLICA, 3, {"is_kraft_controller"}),
        (ApiKey.UPDATE_METADATA, 6, {"is_kraft_controller", "type"}),
    ],
)
def test_what_an_older_version_does_not_know_takes_its_default(
    key: ApiKey, version: int, lacks: set[str]
) -> None:
    sent = read_as_sent(key, version, memoryview(GOLDEN[f"{key.name} {version} request"]))
    assert field_names(REQUESTS[key]) - field_names(sent) == lacks
    assert not any(getattr(newest(key, sent), name) for name in lacks)


def field_names(message: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(message)}


def test_metadata_without_topic_ids_is_all_there_in_the_newest_version() -> None:
    golden = memoryview(GOLDEN["UPDATE_METADATA 6 request"])
    update = newest(ApiKey.UPDATE_METADATA, read_as_sent(ApiKey.UPDATE_METADATA, 6, golden))
    assert type(update) is UpdateMetadataRequest
    (topic,) = update.topic_states
    (sent,) = REQUESTS[ApiKey.UPDATE_METADATA].topic_states
    assert topic == dataclasses.replace(sent, topic_id=None)
    assert update.live_brokers == REQUESTS[ApiKey.UPDATE_METADATA].live_brokers


def test_a_topic_id_of_zeros_is_none() -> None:
    sent = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=1, topic_states=(), live_leaders=()
    )
    (topic, _) = REQUESTS[ApiKey.LEADER_AND_ISR].topic_states
    zero = dataclasses.replace(topic, topic_id=uuid.UUID(int=0))
    body = written(dataclasses.replace(sent, topic_states=(zero,)))
    assert read_as_sent(ApiKey.LEADER_AND_ISR, 7, memoryview(body)).topic_states[0].topic_id is None


def test_a_request_goes_down_to_an_older_version_and_back_without_what_that_lacks() -> None:
    older = adapt(REQUESTS[ApiKey.LEADER_AND_ISR], request_type(ApiKey.LEADER_AND_ISR, 5))
    back = newest(ApiKey.LEADER_AND_ISR, older)
    (first, _) = back.topic_states
    assert first.topic_id == REQUESTS[ApiKey.LEADER_AND_ISR].topic_states[0].topic_id
    assert first.partition_states[0].leader_recovery_state == 0
    assert first.partition_states[0].is_new


def test_describe_controller_has_an_empty_request_and_returns_a_text() -> None:
    assert written(DescribeControllerRequest()) == b"\0"
    told = DescribeControllerResponse(error_code=ErrorCode.not_controller, state="{}")
    assert written(told) == b"\x00\x29\x03{}\x00"


def test_describe_clock_has_an_empty_request_and_returns_milliseconds() -> None:
    assert written(DescribeClockRequest()) == b"\0"
    told = DescribeClockResponse(error_code=ErrorCode.none, time_ms=0x0102030405060708)
    assert written(told) == b"\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\x00"
