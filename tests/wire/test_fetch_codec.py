"""Fetch read and written by hand says what kio's schemas say, in every version."""

import dataclasses
import datetime
import struct
import uuid
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import response as by_name
from kio.schema.fetch.v17 import response as by_id

from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import (
    BY_TOPIC_ID,
    FLEXIBLE,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionFetched,
    PartitionMemo,
    TopicFetched,
    pack_partition,
    read_fetch,
    write_fetch,
)
from barnabas.wire.fetch.single_answer import single_answer
from barnabas.wire.fetch.single_fetch import read_single_fetch
from barnabas.wire.schema import NO_THROTTLE, milliseconds, request_type, write_response
from barnabas.wire.varint import Truncated, uvarint
from tests.wire.entities import entities, served, written

VERSIONS = served(ApiKey.FETCH)
every_version = pytest.mark.parametrize("version", VERSIONS)
thorough = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NIL = uuid.UUID(int=0)


def as_read(version: int, sent: Any) -> FetchRequest:
    """The request that our codec should read, from one that kio wrote."""
    with_id = version >= BY_TOPIC_ID
    return FetchRequest(
        replica_id=sent.replica_id if version < 15 else sent.replica_state.replica_id,
        max_wait_ms=milliseconds(sent.max_wait),
        min_bytes=sent.min_bytes,
        max_bytes=sent.max_bytes,
        read_committed=sent.isolation_level == 1,
        session_id=getattr(sent, "session_id", 0),
        session_epoch=getattr(sent, "session_epoch", -1),
        topics=[
            FetchTopic(
                None if with_id else topic.topic,
                topic.topic_id or NIL if with_id else None,
                [
                    FetchPartition(
                        wanted.partition,
                        wanted.fetch_offset,
                        wanted.partition_max_bytes,
                        getattr(wanted, "current_leader_epoch", -1),
                        getattr(wanted, "last_fetched_epoch", -1),
                        getattr(wanted, "log_start_offset", -1),
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in sent.topics
        ],
        forgotten=[
            ForgottenTopic(
                None if with_id else topic.topic,
                topic.topic_id or NIL if with_id else None,
                topic.partitions,
            )
            for topic in getattr(sent, "forgotten_topics_data", ())
        ],
        rack_id=getattr(sent, "rack_id", ""),
    )


@every_version
@thorough
@given(data=st.data(), before=st.binary(max_size=20))
def test_a_request_is_read_as_kio_wrote_it(
    version: int, data: st.DataObject, before: bytes
) -> None:
    sent = data.draw(entities(request_type(ApiKey.FETCH, version)))
    read = read_fetch(version, memoryview(before + written(sent)), len(before))
    assert read == as_read(version, sent)


@pytest.mark.parametrize("tagged", [0, 1, 2])
def test_partitions_are_read_alike_whichever_of_them_has_tags(tagged: int) -> None:
    schema: Any = import_module("kio.schema.fetch.v17.request")
    partitions = [
        schema.FetchPartition(
            partition=number,
            current_leader_epoch=4,
            fetch_offset=70 + number,
            last_fetched_epoch=3,
            log_start_offset=-1,
            partition_max_bytes=1000,
            replica_directory_id=uuid.UUID(int=9) if number == tagged else None,
        )
        for number in range(2)
    ]
    sent = schema.FetchRequest(
        max_wait=datetime.timedelta(),
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(schema.FetchTopic(topic_id=uuid.UUID(int=5), partitions=tuple(partitions)),),
        forgotten_topics_data=(),
        rack_id="",
    )
    assert read_fetch(17, memoryview(written(sent)), 0) == as_read(17, sent)


@every_version
@thorough
@given(data=st.data())
def test_partitions_that_were_read_before_are_the_same_objects(
    version: int, data: st.DataObject
) -> None:
    requests = st.lists(entities(request_type(ApiKey.FETCH, version)), min_size=1, max_size=2)
    memo = PartitionMemo()
    for sent in data.draw(requests):
        frame = memoryview(written(sent))
        first = read_fetch(version, frame, 0, memo)
        remembered = set(map(id, memo.last.values()))
        again = read_fetch(version, frame, 0, memo)
        assert first == again == as_read(version, sent)
        # The last version has a tag of each partition in these, and those are read one by one.
        assert remembered == (set(map(id, partitions(again))) if version < 17 else set())


def partitions(request: FetchRequest) -> list[FetchPartition]:
    return [partition for topic in request.topics for partition in topic.partitions]


@every_version
@thorough
@given(data=st.data())
def test_a_request_that_is_cut_short_is_refused(version: int, data: st.DataObject) -> None:
    body = written(data.draw(entities(request_type(ApiKey.FETCH, version))))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(Truncated):
        read_fetch(version, memoryview(body[:cut]), 0)


@every_version
@thorough
@given(body=st.binary(max_size=100))
def test_random_bytes_are_read_or_refused_and_nothing_else(version: int, body: bytes) -> None:
    read_single_fetch(version, memoryview(body), 0)
    try:
        read_fetch(version, memoryview(body), 0)
    except Truncated:
        return


@every_version
@pytest.mark.parametrize("where", ["topics", "forgotten"])
def test_huge_counts_are_refused_without_making_room(version: int, where: str) -> None:
    flexible = version >= FLEXIBLE
    huge = uvarint(2**32 - 1) if flexible else struct.pack(">i", 2**31 - 1)
    none = uvarint(1) if flexible else bytes(4)
    fixed = b"" if version >= 15 else struct.pack(">i", -1)
    fixed += struct.pack(">iiib", 500, 1, 1000, 0)
    if version >= 7:
        fixed += struct.pack(">ii", 0, -1)
    if where == "forgotten" and version >= 7:
        name = bytes(16) if version >= BY_TOPIC_ID else b"\x02a" if flexible else b"\0\1a"
        one = uvarint(2) if flexible else struct.pack(">i", 1)
        fixed += none + one + name
    with pytest.raises(Truncated):
        read_fetch(version, memoryview(fixed + huge + bytes(20)), 0)


# -- the response ------------------------------------------------------------

FETCHED = st.builds(
    PartitionFetched,
    partition=INT,
    code=st.sampled_from([int(code) for code in ErrorCode]),
    high_watermark=LONG,
    last_stable_offset=LONG,
    log_start_offset=LONG,
    records=st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: memoryview(data)),
    aborted=st.none() | st.lists(st.tuples(LONG, LONG), max_size=3).map(tuple),
    diverging_epoch=st.none() | st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
    preferred_read_replica=INT,
)
TOPICS = st.lists(
    st.builds(TopicFetched, TEXT, st.uuids(allow_nil=False), st.lists(FETCHED, max_size=3)),
    max_size=3,
)


@every_version
@thorough
@given(topics=TOPICS, code=st.sampled_from(ErrorCode), session_id=INT, correlation_id=INT)
def test_a_response_is_written_byte_for_byte_as_kio_writes_it(
    version: int, topics: list[TopicFetched], code: ErrorCode, session_id: int, correlation_id: int
) -> None:
    if version < FLEXIBLE:
        topics = [without_epochs(topic) for topic in topics]
    buffers = write_fetch(version, correlation_id, topics, int(code), session_id)
    response = as_kio(version, topics, code, session_id)
    expected = write_response(ApiKey.FETCH, version, correlation_id, response)
    assert b"".join(buffers) == expected
    packed = [topic._replace(partitions=packed_if_empty(version, topic)) for topic in topics]
    assert b"".join(write_fetch(version, correlation_id, packed, int(code), session_id)) == expected


def packed_if_empty(version: int, topic: TopicFetched) -> list[PartitionFetched | bytes]:
    return [p if p.records else pack_partition(version, p) for p in unpacked(topic)]


def unpacked(topic: TopicFetched) -> list[PartitionFetched]:
    return [p for p in topic.partitions if isinstance(p, PartitionFetched)]


def without_epochs(topic: TopicFetched) -> TopicFetched:
    return topic._replace(partitions=[p._replace(diverging_epoch=None) for p in unpacked(topic)])


def as_kio(version: int, topics: list[TopicFetched], code: ErrorCode, session_id: int) -> Any:
    schema: Any = by_id if version >= BY_TOPIC_ID else by_name
    return schema.FetchResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        session_id=session_id,
        responses=tuple(
            known(
                schema.FetchableTopicResponse,
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(_partition(schema, p) for p in unpacked(topic)),
            )
            for topic in topics
        ),
    )


def _partition(schema: Any, got: PartitionFetched) -> Any:
    extra = {}
    if got.diverging_epoch is not None:
        epoch, end_offset = got.diverging_epoch
        extra["diverging_epoch"] = schema.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if "preferred_read_replica" in schema.PartitionData.__dataclass_fields__:
        extra["preferred_read_replica"] = got.preferred_read_replica
    aborted = None
    if got.aborted is not None:
        aborted = tuple(
            schema.AbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first in got.aborted
        )
    return schema.PartitionData(
        partition_index=got.partition,
        error_code=ErrorCode(got.code),
        high_watermark=got.high_watermark,
        last_stable_offset=got.last_stable_offset,
        log_start_offset=got.log_start_offset,
        aborted_transactions=aborted,
        records=bytes(got.records),
        **extra,
    )


# -- one partition, the straight path ----------------------------------------


def single(version: int, rack_id: str = "") -> bytes:
    """A fetch of one partition without a session, as a consumer sends it, in kio's bytes."""
    schema: Any = import_module(f"kio.schema.fetch.v{version}.request")
    partition = known(
        schema.FetchPartition,
        partition=3,
        current_leader_epoch=5,
        fetch_offset=42,
        log_start_offset=-1,
        partition_max_bytes=1000,
    )
    topic = known(
        schema.FetchTopic, topic="orders", topic_id=uuid.UUID(int=7), partitions=(partition,)
    )
    return written(
        known(
            schema.FetchRequest,
            replica_id=-1,
            max_wait=datetime.timedelta(milliseconds=500),
            min_bytes=1,
            max_bytes=5000,
            isolation_level=1,
            session_id=0,
            session_epoch=-1,
            topics=(topic,),
            forgotten_topics_data=(),
            rack_id=rack_id,
        )
    )


def known(entity: Any, **values: Any) -> Any:
    """The entity with those of the values that its version knows."""
    fields = {field.name for field in dataclasses.fields(entity)}
    return entity(**{name: value for name, value in values.items() if name in fields})


@every_version
@pytest.mark.parametrize("rack_id", ["", "rack-1"])
def test_the_straight_path_reads_what_the_general_one_reads(version: int, rack_id: str) -> None:
    body = memoryview(single(version, rack_id=rack_id))
    fast, slow = read_single_fetch(version, body, 0), read_fetch(version, body, 0)
    (topic,) = slow.topics
    (partition,) = topic.partitions
    assert fast is not None
    assert fast.topic == (topic.name or topic.topic_id)
    assert (fast.partition, fast.fetch_offset) == (partition.partition, partition.fetch_offset)
    assert (fast.max_bytes, fast.partition_max_bytes) == (slow.max_bytes, partition.max_bytes)
    assert fast.current_leader_epoch == partition.current_leader_epoch
    assert (fast.min_bytes, fast.read_committed) == (slow.min_bytes, slow.read_committed)


@every_version
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_straight_path_takes_no_damaged_request_for_another(
    version: int, data: st.DataObject
) -> None:
    body = bytearray(single(version))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= 1 << data.draw(st.integers(0, 7))
    fast = read_single_fetch(version, memoryview(body), 0)
    if fast is None:
        return
    slow = read_fetch(version, memoryview(body), 0)
    (topic,) = slow.topics
    (partition,) = topic.partitions
    assert fast.topic == (topic.topic_id if topic.name is None else topic.name)
    assert (fast.partition, fast.fetch_offset) == (partition.partition, partition.fetch_offset)
    assert (slow.session_id, slow.session_epoch, slow.forgotten) == (0, -1, [])


@every_version
@thorough
@given(
    partition=st.integers(0, 2**31 - 1),
    topic=TEXT,
    topic_id=st.uuids(allow_nil=False),
    numbers=st.tuples(LONG, LONG, LONG),
    read_committed=st.booleans(),
    records=st.binary(min_size=1, max_size=300),
)
def test_the_straight_answer_is_the_general_one(
    version: int,
    partition: int,
    topic: str,
    topic_id: uuid.UUID,
    numbers: tuple[int, int, int],
    read_committed: bool,
    records: bytes,
) -> None:
    with_id = version >= BY_TOPIC_ID
    answer = single_answer(version, topic_id if with_id else topic, partition, read_committed)
    got = PartitionFetched(
        partition, 0, *numbers, records=records, aborted=() if read_committed else None
    )
    named = TopicFetched(None if with_id else topic, topic_id if with_id else None, [got])
    expected = b"".join(write_fetch(version, 99, [named]))
    assert b"".join(answer.response(99, *numbers, records)) == expected
