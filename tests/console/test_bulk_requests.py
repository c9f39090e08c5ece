"""Requests about very many partitions: what is written and read by hand, against the schemas."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.client.metadata import fields
from barnabas.client.requests import write_request
from barnabas.console.cluster.bulk_requests import (
    AT_ONCE,
    CUT_SHORT,
    describe_log_dirs,
    fetch_offsets,
    list_offsets,
    read_committed,
    read_list_offsets,
    read_log_dirs,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import response_type, write_body

CLIENT = "console"
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
OFFSETS = st.integers(0, 2**63 - 1)
PARTITIONS = st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1)), OFFSETS)


def by_topic(partitions: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def response(key: ApiKey, version: int, message: Any) -> memoryview:
    """All that follows the correlation id."""
    return memoryview(b"\0" + bytes(write_body(response_type(key, version), message)))


@given(PARTITIONS)
def test_requests_are_those_of_the_schemas(partitions: dict[TopicPartition, int]) -> None:
    topics = by_topic(partitions)
    wanted = fields(
        replica_id=-1,
        isolation_level=0,
        topics=tuple(
            fields(
                name=name,
                partitions=tuple(
                    fields(partition_index=n, current_leader_epoch=-1, timestamp=-2)
                    for n in numbers
                ),
            )
            for name, numbers in topics.items()
        ),
    )
    frames = [frame(7) for frame in list_offsets(CLIENT, partitions, -2)]
    assert frames == [write_request(ApiKey.LIST_OFFSETS, 6, 7, CLIENT, wanted)] * bool(partitions)
    wanted = fields(
        topics=tuple(
            fields(topic=name, partitions=tuple(numbers)) for name, numbers in topics.items()
        )
    )
    frames = [frame(7) for frame in describe_log_dirs(CLIENT, partitions)]
    expected = [write_request(ApiKey.DESCRIBE_LOG_DIRS, 2, 7, CLIENT, wanted)]
    assert frames == expected * bool(partitions)


@given(st.lists(NAMES, min_size=1, max_size=20))
def test_committed_offsets_are_asked_for_as_by_the_schema(groups: list[str]) -> None:
    wanted = fields(
        groups=tuple(fields(group_id=name, topics=None) for name in groups), require_stable=False
    )
    (frame,) = fetch_offsets(CLIENT, groups)
    assert frame(7) == write_request(ApiKey.OFFSET_FETCH, 8, 7, CLIENT, wanted)


def test_very_many_partitions_are_asked_for_in_parts() -> None:
    many = [TopicPartition("orders", number) for number in range(2 * AT_ONCE + 1)]
    assert len(list(list_offsets(CLIENT, many, -1))) == 3
    assert len(list(describe_log_dirs(CLIENT, many))) == 3
    assert len(list(fetch_offsets(CLIENT, [f"g{number}" for number in range(101)]))) == 3


@given(PARTITIONS)
def test_responses_are_read_as_by_the_schemas(partitions: dict[TopicPartition, int]) -> None:
    offsets = fields(
        throttle_time=timedelta(0),
        topics=tuple(
            fields(
                name=name,
                partitions=tuple(
                    fields(
                        partition_index=n,
                        error_code=ErrorCode.none,
                        timestamp=-1,
                        offset=partitions[TopicPartition(name, n)],
                        leader_epoch=3,
                    )
                    for n in numbers
                ),
            )
            for name, numbers in by_topic(partitions).items()
        ),
    )
    assert read_list_offsets(response(ApiKey.LIST_OFFSETS, 6, offsets)) == partitions
    sizes = fields(
        throttle_time=timedelta(0),
        results=(
            fields(
                error_code=ErrorCode.none,
                log_dir="/data",
                topics=tuple(
                    fields(
                        name=name,
                        partitions=tuple(
                            fields(
                                partition_index=n,
                                partition_size=partitions[TopicPartition(name, n)],
                                offset_lag=1,
                                is_future_key=False,
                            )
                            for n in numbers
                        ),
                    )
                    for name, numbers in by_topic(partitions).items()
                ),
            ),
        ),
    )
    found = read_log_dirs(response(ApiKey.DESCRIBE_LOG_DIRS, 2, sizes))
    assert found == {at: (size, 1) for at, size in partitions.items()}
    committed = fields(
        throttle_time=timedelta(0),
        groups=tuple(
            fields(
                group_id=group,
                topics=tuple(
                    fields(
                        name=name,
                        partitions=tuple(
                            fields(
                                partition_index=n,
                                committed_offset=partitions[TopicPartition(name, n)],
                                committed_leader_epoch=-1,
                                metadata=metadata,
                                error_code=ErrorCode.none,
                            )
                            for n in numbers
                        ),
                    )
                    for name, numbers in by_topic(partitions).items()
                ),
                error_code=error,
            )
            for group, metadata, error in (
                ("billing", "noted" * 40, ErrorCode.none),
                ("moved", None, ErrorCode.not_coordinator),
                ("audit", None, ErrorCode.none),
            )
        ),
    )
    read = read_committed(response(ApiKey.OFFSET_FETCH, 8, committed))
    assert read == {"billing": partitions, "audit": partitions}


def test_partitions_with_an_error_have_no_offset() -> None:
    refused = fields(
        throttle_time=timedelta(0),
        topics=(
            fields(
                name="orders",
                partitions=(
                    fields(
                        partition_index=0,
                        error_code=ErrorCode.not_leader_or_follower,
                        timestamp=-1,
                        offset=5,
                        leader_epoch=0,
                    ),
                ),
            ),
        ),
    )
    whole = response(ApiKey.LIST_OFFSETS, 6, refused)
    assert read_list_offsets(whole) == {}
    for size in range(1, len(whole) - 2):  # without the tags of the topic and of the message
        with pytest.raises(CUT_SHORT):
            read_list_offsets(whole[:size])
