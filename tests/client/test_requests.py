"""Requests to other brokers, and their answers: any version, and bytes that are none."""

import contextlib
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.client.frames import MalformedResponse
from barnabas.client.requests import read_response, write_request
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import adapt, read_as_sent, request_type, response_type, write_response
from tests.wire.entities import SERVED, SERVED_IDS, entities, written
from tests.wire.test_schema import LARGEST, assert_agree

quick = settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow], deadline=None)
every_version = pytest.mark.parametrize(("key", "version"), SERVED, ids=SERVED_IDS)


@every_version
@quick
@given(data=st.data(), client_id=st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
def test_a_request_is_written_in_the_version_that_is_named(
    key: ApiKey, version: int, data: st.DataObject, client_id: str
) -> None:
    message = data.draw(entities(request_type(key, APIS[key].highest)))
    frame = write_request(key, version, -5, client_id, message)
    name = client_id.encode()
    head = struct.pack(">ihhih", len(frame) - 4, key, version, -5, len(name)) + name
    head += b"\0" if version >= APIS[key].flexible else b""
    assert frame.startswith(head)
    target = request_type(key, version)
    assert frame[len(head) :] == written(adapt(message, target))
    assert_agree(message, read_as_sent(key, version, memoryview(frame)[len(head) :]))


@every_version
@quick
@given(data=st.data())
def test_an_answer_is_read_back_in_the_newest_version(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    sent = data.draw(entities(response_type(key, version)))
    frame = write_response(key, version, 7, sent)
    read = read_response(key, version, memoryview(frame)[8:])
    assert type(read) is response_type(key, APIS[key].highest)
    assert_agree(sent, read)


@every_version
@quick
@given(data=st.data())
def test_an_answer_that_is_cut_short_is_refused(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    frame = write_response(key, version, 7, data.draw(entities(response_type(key, version))))
    cut = data.draw(st.integers(8, len(frame) - 1))
    with pytest.raises(MalformedResponse, match=rf"^{key.name} v{version}: "):
        read_response(key, version, memoryview(frame)[8:cut])


@every_version
@quick
@given(data=st.data())
def test_a_length_that_cannot_be_true_is_refused_before_room_is_made_for_it(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    sent = data.draw(entities(response_type(key, version)))
    answer = bytearray(write_response(key, version, 7, sent)[8:])
    at = data.draw(st.integers(0, len(answer)))
    answer[at : at + data.draw(st.sampled_from([0, 1, 4]))] = data.draw(st.sampled_from(LARGEST))
    with contextlib.suppress(MalformedResponse):
        read_response(key, version, memoryview(answer))


@every_version
@quick
@given(answer=st.binary(max_size=120))
def test_random_bytes_are_an_answer_or_refused(key: ApiKey, version: int, answer: bytes) -> None:
    with contextlib.suppress(MalformedResponse):
        read_response(key, version, memoryview(answer))
