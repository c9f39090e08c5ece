"""Fetch on the client's side, by hand, agrees with kio's schemas and with our leader."""

import contextlib
import struct
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.client.fetch import (
    BY_NAME,
    NEWEST,
    CurrentLeader,
    DivergingEpoch,
    Fetch,
    FetchedPartition,
    FetchResponse,
    read_fetch_response,
    write_fetch_request,
)
from barnabas.client.frames import MalformedResponse
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionFetched,
    TopicFetched,
    read_fetch,
    write_fetch,
)
from barnabas.wire.schema import milliseconds, read_as_sent, response_type, write_response
from barnabas.wire.varint import uvarint
from tests.wire.entities import entities
from tests.wire.test_schema import LARGEST

thorough = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
TOPIC = uuid.UUID(int=5)
NIL = uuid.UUID(int=0)

PARTITIONS = st.lists(st.builds(FetchPartition, INT, LONG, INT, INT, INT, LONG), max_size=3)
FETCHES = st.builds(
    Fetch,
    replica_id=INT,
    max_wait_ms=INT,
    min_bytes=INT,
    max_bytes=INT,
    topics=st.lists(st.builds(FetchTopic, st.none(), st.uuids(), PARTITIONS), max_size=3),
    forgotten=st.lists(
        st.builds(ForgottenTopic, st.none(), st.uuids(), st.lists(INT, max_size=3).map(tuple)),
        max_size=3,
    ),
    session_id=INT,
    session_epoch=INT,
    replica_epoch=LONG,
)


@thorough
@given(fetch=FETCHES)
def test_what_a_follower_asks_is_read_by_the_leader_and_by_kio(fetch: Fetch) -> None:
    frame = write_fetch_request(NEWEST, 77, "follower", fetch)
    assert struct.unpack_from(">ihhih", frame) == (len(frame) - 4, ApiKey.FETCH, NEWEST, 77, 8)
    body = memoryview(frame)[14 + len("follower") + 1 :]

    read = read_fetch(NEWEST, body, 0)
    assert (read.replica_id, read.session_id) == (fetch.replica_id, fetch.session_id)
    assert (read.max_wait_ms, read.min_bytes) == (fetch.max_wait_ms, fetch.min_bytes)
    assert (read.topics, read.forgotten) == (fetch.topics, fetch.forgotten)
    assert not read.read_committed

    sent = read_as_sent(ApiKey.FETCH, NEWEST, body)
    assert sent.replica_state.replica_id == fetch.replica_id
    assert sent.replica_state.replica_epoch == fetch.replica_epoch
    assert milliseconds(sent.max_wait) == fetch.max_wait_ms
    assert (sent.max_bytes, sent.session_epoch) == (fetch.max_bytes, fetch.session_epoch)
    assert (sent.cluster_id, sent.rack_id) == (None, "")
    assert [as_ours(topic) for topic in sent.topics] == fetch.topics


NAMES = st.text(max_size=20)
FETCHES_BY_NAME = st.builds(
    Fetch,
    replica_id=INT,
    max_wait_ms=INT,
    min_bytes=INT,
    max_bytes=INT,
    topics=st.lists(st.builds(FetchTopic, NAMES, st.none(), PARTITIONS), max_size=3),
    forgotten=st.lists(
        st.builds(ForgottenTopic, NAMES, st.none(), st.lists(INT, max_size=3).map(tuple)),
        max_size=3,
    ),
    session_id=INT,
    session_epoch=INT,
    read_committed=st.booleans(),
)


@thorough
@given(fetch=FETCHES_BY_NAME)
def test_topics_without_ids_are_asked_for_by_their_names(fetch: Fetch) -> None:
    frame = write_fetch_request(BY_NAME, 77, "f", fetch)
    assert struct.unpack_from(">hh", frame, 4) == (ApiKey.FETCH, BY_NAME)
    body = memoryview(frame)[14 + len("f") + 1 :]
    read = read_fetch(BY_NAME, body, 0)
    assert (read.replica_id, read.session_id) == (fetch.replica_id, fetch.session_id)
    assert (read.topics, read.forgotten) == (fetch.topics, fetch.forgotten)
    sent = read_as_sent(ApiKey.FETCH, BY_NAME, body)
    assert (sent.replica_id, sent.cluster_id, sent.rack_id) == (fetch.replica_id, None, "")
    assert [as_ours(topic) for topic in sent.topics] == fetch.topics


@thorough
@given(data=st.data())
def test_what_kio_answers_by_name_is_read_as_it_was_meant(data: st.DataObject) -> None:
    sent = data.draw(entities(response_type(ApiKey.FETCH, BY_NAME)))
    frame = write_response(ApiKey.FETCH, BY_NAME, 1, sent)
    read = read_fetch_response(BY_NAME, memoryview(frame)[8:])
    assert (read.error, read.session_id) == (sent.error_code, sent.session_id)
    assert read.partitions == [
        as_fetched(topic.topic, partition)
        for topic in sent.responses
        for partition in topic.partitions
    ]


def as_ours(topic: Any) -> FetchTopic:
    partitions = [
        FetchPartition(
            p.partition,
            p.fetch_offset,
            p.partition_max_bytes,
            p.current_leader_epoch,
            p.last_fetched_epoch,
            p.log_start_offset,
        )
        for p in topic.partitions
    ]
    if hasattr(topic, "topic"):
        return FetchTopic(topic.topic, None, partitions)
    return FetchTopic(None, topic.topic_id or NIL, partitions)


@thorough
@given(data=st.data())
def test_what_kio_answers_is_read_as_it_was_meant(data: st.DataObject) -> None:
    sent = data.draw(entities(response_type(ApiKey.FETCH, NEWEST)))
    read = read_fetch_response(
        NEWEST, memoryview(write_response(ApiKey.FETCH, NEWEST, 1, sent))[8:]
    )
    assert (read.error, read.session_id) == (sent.error_code, sent.session_id)
    expected = [
        as_fetched(topic.topic_id or NIL, partition)
        for topic in sent.responses
        for partition in topic.partitions
    ]
    assert read.partitions == expected


def as_fetched(topic: uuid.UUID | str, sent: Any) -> FetchedPartition:
    diverging, leader = sent.diverging_epoch, sent.current_leader
    return FetchedPartition(
        topic,
        sent.partition_index,
        sent.error_code,
        sent.high_watermark,
        sent.last_stable_offset,
        sent.log_start_offset,
        DivergingEpoch(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
        CurrentLeader(leader.leader_id, leader.leader_epoch) if leader.leader_epoch >= 0 else None,
        memoryview(sent.records or b""),
        [(each.producer_id, each.first_offset) for each in sent.aborted_transactions or ()] or (),
    )


def test_what_our_leader_answers_is_read_and_records_are_not_copied() -> None:
    first = PartitionFetched(0, 0, 10, 9, 1, b"records", aborted=((4, 5), (6, 7)))
    second = PartitionFetched(3, ErrorCode.none, 20, 20, 2, b"", diverging_epoch=(6, 1500))
    frame = b"".join(
        write_fetch(NEWEST, 1, [TopicFetched(None, TOPIC, [first, second])], session_id=99)
    )
    answer = memoryview(bytearray(frame))[8:]
    read = read_fetch_response(NEWEST, answer)
    assert read == FetchResponse(
        ErrorCode.none,
        99,
        [
            FetchedPartition(
                TOPIC,
                0,
                ErrorCode.none,
                10,
                9,
                1,
                None,
                None,
                memoryview(b"records"),
                [(4, 5), (6, 7)],
            ),
            FetchedPartition(
                TOPIC, 3, ErrorCode.none, 20, 20, 2, DivergingEpoch(6, 1500), None, memoryview(b"")
            ),
        ],
    )
    assert read.partitions[0].records.obj is answer.obj


def test_an_error_that_only_newer_brokers_know_is_an_unknown_error() -> None:
    topics = [TopicFetched(None, TOPIC, [PartitionFetched(0, 9999)])]
    frame = b"".join(write_fetch(NEWEST, 1, topics, code=-77))
    read = read_fetch_response(NEWEST, memoryview(frame)[8:])
    assert read.error is ErrorCode.unknown_server_error
    assert read.partitions[0].error is ErrorCode.unknown_server_error


def test_tags_that_nobody_knows_yet_are_passed_over_wherever_they_are() -> None:
    tags = b"\x01" + uvarint(9999) + uvarint(5) + b"hello"
    partition = struct.pack(">ihqqq", 4, 0, 10, 10, 0) + b"\0" + struct.pack(">i", -1)
    partition += b"\x04abc" + tags
    answer = tags + struct.pack(">ihi", 0, 0, 0)
    answer += b"\x02" + TOPIC.bytes + b"\x02" + partition + tags + tags
    (read,) = read_fetch_response(NEWEST, memoryview(answer)).partitions
    assert (read.partition, bytes(read.records)) == (4, b"abc")


@thorough
@given(data=st.data())
def test_an_answer_that_is_cut_short_is_refused(data: st.DataObject) -> None:
    sent = data.draw(entities(response_type(ApiKey.FETCH, NEWEST)))
    answer = memoryview(write_response(ApiKey.FETCH, NEWEST, 1, sent))[8:]
    cut = data.draw(st.integers(0, len(answer) - 1))
    with pytest.raises(MalformedResponse, match=r"^FETCH v17: "):
        read_fetch_response(NEWEST, answer[:cut])


@thorough
@given(data=st.data())
def test_a_length_that_cannot_be_true_is_refused(data: st.DataObject) -> None:
    sent = data.draw(entities(response_type(ApiKey.FETCH, NEWEST)))
    answer = bytearray(write_response(ApiKey.FETCH, NEWEST, 1, sent)[8:])
    at = data.draw(st.integers(0, len(answer)))
    answer[at : at + data.draw(st.sampled_from([0, 1, 4]))] = data.draw(st.sampled_from(LARGEST))
    with contextlib.suppress(MalformedResponse):
        read_fetch_response(NEWEST, memoryview(answer))


@thorough
@given(answer=st.binary(max_size=200))
def test_random_bytes_are_an_answer_or_refused(answer: bytes) -> None:
    with contextlib.suppress(MalformedResponse):
        read_fetch_response(NEWEST, memoryview(answer))
