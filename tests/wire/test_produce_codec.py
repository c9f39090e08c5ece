"""Produce read and written by hand says what kio's schemas say, in every version."""

import datetime
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.produce.v11 import response as kio

from barnabas.wire.apis import ApiKey
from barnabas.wire.produce.plain_batch import FLEXIBLE
from barnabas.wire.produce.produce_codec import (
    PartitionProduced,
    read_produce,
    read_single,
    whole,
    write_produce,
)
from barnabas.wire.schema import request_type, write_body, write_response
from barnabas.wire.varint import Truncated, uvarint
from tests.server.api_requests import of
from tests.wire.entities import entities, served, written

VERSIONS = served(ApiKey.PRODUCE)
every_version = pytest.mark.parametrize("version", VERSIONS)
thorough = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])

LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
PRODUCED = st.builds(
    PartitionProduced,
    partition=st.integers(-(2**31), 2**31 - 1),
    code=st.sampled_from([int(code) for code in ErrorCode]),
    base_offset=LONG,
    log_append_time_ms=st.integers(-1, 2**41),
    log_start_offset=LONG,
    record_errors=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.none() | TEXT), max_size=3).map(
        tuple
    ),
    message=st.none() | TEXT,
)


@every_version
@thorough
@given(data=st.data(), before=st.binary(max_size=20))
def test_a_request_is_read_as_kio_wrote_it(
    version: int, data: st.DataObject, before: bytes
) -> None:
    sent = data.draw(entities(request_type(ApiKey.PRODUCE, version)))
    read = read_produce(version, memoryview(before + written(sent)), len(before))
    assert (read.transactional_id, read.acks) == (sent.transactional_id, sent.acks)
    assert datetime.timedelta(milliseconds=read.timeout_ms) == sent.timeout
    assert [(p.topic, p.partition, p.records) for p in read.partitions] == [
        (topic.name, partition.index, partition.records)
        for topic in sent.topic_data
        for partition in topic.partition_data
    ]


@every_version
@given(
    transactional_id=st.none() | TEXT | st.just("i" * 127),
    topic=TEXT,
    partition=st.integers(-(2**31), 2**31 - 1),
    records=st.binary(min_size=1, max_size=200),
    cut=st.just(0) | st.integers(0, 300),
)
def test_a_request_for_one_partition_is_read_alike_by_the_short_way(
    version: int,
    transactional_id: str | None,
    topic: str,
    partition: int,
    records: bytes,
    cut: int,
) -> None:
    entity = request_type(ApiKey.PRODUCE, version)
    one = of(index=partition, records=records)
    sent = of(
        transactional_id=transactional_id,
        acks=-1,
        timeout=datetime.timedelta(seconds=1),
        topic_data=(of(name=topic, partition_data=(one,)),),
    )
    body = memoryview(write_body(entity, sent))
    body = body[: max(0, len(body) - cut)]
    single = read_single(version, body, 0)
    if cut:
        assert single is None
        return
    if single is None:  # a name is long
        assert version >= FLEXIBLE
        assert max(len(topic.encode()), len((transactional_id or "").encode())) >= 127
        return
    assert whole(single) == read_produce(version, body, 0)
    assert (single.topic, single.partition, bytes(single.records)) == (topic, partition, records)


@every_version
@thorough
@given(data=st.data())
def test_a_request_that_is_cut_short_is_refused(version: int, data: st.DataObject) -> None:
    body = written(data.draw(entities(request_type(ApiKey.PRODUCE, version))))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(Truncated):
        read_produce(version, memoryview(body[:cut]), 0)


@every_version
@thorough
@given(body=st.binary(max_size=100))
def test_random_bytes_are_read_or_refused_and_nothing_else(version: int, body: bytes) -> None:
    try:
        read = read_produce(version, memoryview(body), 0)
    except Truncated:
        return
    assert all(p.records is None or len(p.records) <= len(body) for p in read.partitions)


@every_version
def test_huge_counts_end_with_the_frame(version: int) -> None:
    huge = uvarint(2**32 - 1) if version >= FLEXIBLE else struct.pack(">i", 2**31 - 1)
    start = b"\0" if version >= FLEXIBLE else b"\xff\xff"
    with pytest.raises(Truncated):
        read_produce(version, memoryview(start + struct.pack(">hi", 1, 100) + huge), 0)


@every_version
@thorough
@given(
    topics=st.lists(st.tuples(TEXT, st.lists(PRODUCED, max_size=3)), max_size=3),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
)
def test_a_response_is_written_byte_for_byte_as_kio_writes_it(
    version: int, topics: list[tuple[str, list[PartitionProduced]]], correlation_id: int
) -> None:
    response = as_kio(topics)
    expected = write_response(ApiKey.PRODUCE, version, correlation_id, response)
    assert write_produce(version, correlation_id, topics) == expected


def as_kio(topics: list[tuple[str, list[PartitionProduced]]]) -> Any:
    return kio.ProduceResponse(
        responses=tuple(
            kio.TopicProduceResponse(
                name=name,
                partition_responses=tuple(_partition(one) for one in produced),
            )
            for name, produced in topics
        ),
        throttle_time=datetime.timedelta(0),
    )


def _partition(produced: PartitionProduced) -> Any:
    append_time = None
    if produced.log_append_time_ms != -1:
        since = datetime.timedelta(milliseconds=produced.log_append_time_ms)
        append_time = datetime.datetime.fromtimestamp(0, datetime.UTC) + since
    return kio.PartitionProduceResponse(
        index=produced.partition,
        error_code=ErrorCode(produced.code),
        base_offset=produced.base_offset,
        log_append_time=append_time,
        log_start_offset=produced.log_start_offset,
        record_errors=tuple(
            kio.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in produced.record_errors
        ),
        error_message=produced.message,
    )
