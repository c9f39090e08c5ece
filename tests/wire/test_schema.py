"""Every API in every version: read as sent, brought to the newest, written in any."""

import contextlib
import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import (
    NO_THROTTLE,
    MalformedRequest,
    adapt,
    newest,
    read_as_sent,
    request_type,
    response_type,
    write_response,
)
from barnabas.wire.varint import uvarint
from tests.wire.entities import SERVED, SERVED_IDS, entities, written

LARGEST = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\xff" * 12]
quick = settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow], deadline=None)

every_version = pytest.mark.parametrize(("key", "version"), SERVED, ids=SERVED_IDS)


@every_version
@quick
@given(data=st.data())
def test_a_request_is_read_as_it_was_sent(key: ApiKey, version: int, data: st.DataObject) -> None:
    sent = data.draw(entities(request_type(key, version)))
    assert read_as_sent(key, version, memoryview(bytearray(written(sent)))) == sent


@every_version
@quick
@given(data=st.data())
def test_a_request_in_the_newest_version_keeps_what_both_versions_know(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    sent = data.draw(entities(request_type(key, version)))
    assert_agree(sent, newest(key, sent))


@every_version
@quick
@given(data=st.data())
def test_a_response_is_written_in_the_version_that_was_asked_for(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    response = data.draw(entities(response_type(key, APIS[key].highest)))
    frame = write_response(key, version, 77, response)
    size, correlation_id = struct.unpack_from(">ii", frame)
    assert (size, correlation_id) == (len(frame) - 4, 77)
    flexible = version >= APIS[key].flexible and key is not ApiKey.API_VERSIONS
    start = 9 if flexible else 8
    target = response_type(key, version)
    read, length = entity_reader(target)(memoryview(frame), start)
    assert start + length == len(frame)
    assert_agree(adapt(response, target), read)
    assert_agree(response, read)


def assert_agree(one: Any, other: Any) -> None:
    """Fields that both have are equal; what `one` lacks, or `other` cannot lack, is a default."""
    if not dataclasses.is_dataclass(one):
        assert one == other
        return
    assert dataclasses.is_dataclass(other)
    for field in dataclasses.fields(other):
        value = getattr(other, field.name)
        mine: Any = getattr(one, field.name, None)
        if "derived" in field.metadata and not hasattr(one, field.name):
            assert value == field.metadata["derived"](one)
        elif mine is None and (value is not None or not hasattr(one, field.name)):
            assert is_default(field, value), (field.name, value)
        elif isinstance(value, tuple):
            assert len(mine) == len(value)
            for a, b in zip(mine, value, strict=True):
                assert_agree(a, b)
        else:
            assert_agree(mine, value)


def is_default(field: "dataclasses.Field[Any]", value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default)
    if dataclasses.is_dataclass(value):
        return all(is_default(f, getattr(value, f.name)) for f in dataclasses.fields(value))
    return not value


@every_version
@quick
@given(data=st.data())
def test_a_request_that_is_cut_short_is_refused(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    body = written(data.draw(entities(request_type(key, version))))
    if body:
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(MalformedRequest):
            read_as_sent(key, version, memoryview(body[:cut]))


@every_version
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_length_that_cannot_be_true_is_refused_before_room_is_made_for_it(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    body = bytearray(written(data.draw(entities(request_type(key, version)))))
    at = data.draw(st.integers(0, len(body)))
    length = data.draw(st.sampled_from(LARGEST))
    body[at : at + data.draw(st.sampled_from([0, 1, 4]))] = length
    with contextlib.suppress(MalformedRequest):
        read_as_sent(key, version, memoryview(body))


@every_version
@settings(max_examples=5, deadline=None)
@given(body=st.binary(max_size=120))
def test_random_bytes_are_a_request_or_refused(key: ApiKey, version: int, body: bytes) -> None:
    with contextlib.suppress(MalformedRequest):
        read_as_sent(key, version, memoryview(body))


def test_tags_of_newer_clients_are_passed_over_wherever_they_are() -> None:
    unknown = b"\x01" + uvarint(9999) + uvarint(5) + b"hello"
    topic = uvarint(4) + b"abc" + unknown
    body = uvarint(2) + bytes(16) + topic + b"\x01\x00" + unknown
    read = read_as_sent(ApiKey.METADATA, 12, memoryview(body))
    assert [topic.name for topic in read.topics] == ["abc"]
    assert (read.allow_auto_topic_creation, read.include_topic_authorized_operations) == (1, 0)


def test_a_tag_that_is_known_is_kept_beside_one_that_is_not() -> None:
    fetch = request_type(ApiKey.FETCH, 17)
    (cluster_id,) = (f for f in dataclasses.fields(fetch) if f.name == "cluster_id")
    assert cluster_id.metadata["tag"] == 0
    fixed = struct.pack(">iiib", 500, 1, 1000, 0) + struct.pack(">ii", 0, -1)
    known = uvarint(0) + uvarint(4) + uvarint(4) + b"abc"
    unknown = uvarint(77) + uvarint(1) + b"x"
    body = fixed + uvarint(1) + uvarint(1) + uvarint(1) + uvarint(2) + known + unknown
    assert read_as_sent(ApiKey.FETCH, 17, memoryview(body)).cluster_id == "abc"


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_null_that_the_newest_version_knows_stays_null(version: int) -> None:
    described = request_type(ApiKey.DESCRIBE_CONFIGS, version)
    all_keys = struct.pack(">ibhi", 1, 2, 0, -1) + b"\0\0"
    if version == 4:
        all_keys = b"\x02\x02\x01\x00\x00\x00\x00\x00"
    sent = read_as_sent(ApiKey.DESCRIBE_CONFIGS, version, memoryview(all_keys))
    assert isinstance(sent, described)
    assert newest(ApiKey.DESCRIBE_CONFIGS, sent).resources[0].configuration_keys is None


def test_a_null_that_an_older_version_does_not_know_becomes_its_default() -> None:
    unnamed = DeletableTopicResult(name=None, topic_id=None, error_code=ErrorCode.unknown_topic_id)
    answer = DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=(unnamed,))
    assert adapt(answer, response_type(ApiKey.DELETE_TOPICS, 5)).responses[0].name == ""
    assert adapt(answer, response_type(ApiKey.DELETE_TOPICS, 6)).responses[0].name is None
