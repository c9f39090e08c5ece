"""The model of the Java consumer's fetcher."""

import struct
from itertools import count

import pytest
from kio.schema.fetch.v12 import FetchRequest
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader

from barnabas.base.errors import ErrorCode
from barnabas.bench.bench_plan import SMOKE, Bench
from barnabas.bench.limits.java_fetcher import (
    FetchAsked,
    FetchLimits,
    JavaFetcher,
    hash_code,
    next_offset,
)
from barnabas.bench.limits.load_generator import LoadFailed
from barnabas.bench.limits.load_messages import LoadBatch, batch_of
from barnabas.bench.limits.sessions_bench import sessions_section
from barnabas.client.fetch import BY_NAME, FetchedPartition, FetchResponse, write_fetch_request

BATCH = batch_of(1024)
TOPIC = "bench"
SESSION = 77


def records(offset: int, batches: int, batch: LoadBatch = BATCH) -> memoryview:
    return memoryview(b"".join(batch.at(offset + n * batch.records) for n in range(batches)))


def answer(
    *partitions: tuple[int, int, int], code: ErrorCode = ErrorCode.none, session: int = SESSION
) -> FetchResponse:
    """Of (partition, offset, batches)."""
    fetched = [
        FetchedPartition(TOPIC, each, ErrorCode.none, 1000, 1000, 0, None, None, records(at, n))
        for each, at, n in partitions
    ]
    return FetchResponse(code, session, fetched)


def begun(*batches: int, max_poll_records: int = 500) -> JavaFetcher:
    """A consumer whose first fetch brought so many batches of each partition."""
    limits = FetchLimits(max_poll_records=max_poll_records)
    fetcher = JavaFetcher(TOPIC, range(len(batches)), limits)
    asked = fetcher.next_fetch()
    assert asked is not None
    fetcher.on_answer(answer(*((each, 0, batches[each]) for each in asked.to_send)))
    return fetcher


# -- the frames --------------------------------------------------------------


def test_a_request_reads_as_kafkas() -> None:
    asked = FetchAsked({3: 70, 1: 5}, [4, 0], SESSION, 6)
    fetch = asked.of_topic(TOPIC, FetchLimits(), replica_id=2, leader_epoch=9)
    frame = write_fetch_request(BY_NAME, 1, "bench", fetch)
    header, size = entity_reader(RequestHeader)(memoryview(frame), 4)
    body, length = entity_reader(FetchRequest)(memoryview(frame), 4 + size)
    assert 4 + size + length == len(frame) == 4 + struct.unpack_from(">i", frame)[0]
    assert (header.request_api_key, header.request_api_version) == (1, 12)
    assert (body.replica_id, body.min_bytes, body.max_bytes) == (2, 1, 50 * 2**20)
    assert (body.session_id, body.session_epoch) == (SESSION, 6)
    (topic,), (forgotten,) = body.topics, body.forgotten_topics_data
    got = [(p.partition, p.fetch_offset, p.current_leader_epoch) for p in topic.partitions]
    assert got == [(3, 70, 9), (1, 5, 9)]
    assert {p.partition_max_bytes for p in topic.partitions} == {2**20}
    assert tuple(forgotten.partitions) == (4, 0)


def test_a_truncated_batch_does_not_count() -> None:
    three = records(40, 3)
    assert next_offset(three, 40) == 40 + 3 * BATCH.records
    assert next_offset(three[:-1], 40) == 40 + 2 * BATCH.records
    assert next_offset(three[:20], 40) == 40


# -- what is named -----------------------------------------------------------


def test_hash_codes_are_javas() -> None:
    """`new TopicPartition("abc", 0).hashCode()` is 97315, and "abc".hashCode() 96354."""
    assert hash_code("abc", 0) == 97315 ^ 97315 >> 16
    assert hash_code("abc", 7) == (97315 + 7 * 31) ^ (97315 + 7 * 31) >> 16


def test_the_first_fetch_names_all_partitions_in_the_order_of_a_hash_set() -> None:
    fetcher = JavaFetcher(TOPIC, range(6))
    asked = fetcher.next_fetch()
    assert asked is not None
    assert (asked.session_id, asked.session_epoch, asked.to_forget) == (0, 0, ())
    buckets = [hash_code(TOPIC, each) % 16 for each in asked.to_send]
    assert sorted(asked.to_send) == list(range(6))
    assert buckets == sorted(buckets)


def test_one_fetch_is_in_flight() -> None:
    fetcher = JavaFetcher(TOPIC, range(6))
    assert fetcher.next_fetch() is not None
    assert fetcher.next_fetch() is None
    fetcher.on_answer(answer(*((each, 0, 0) for each in range(6))))
    with pytest.raises(LoadFailed, match="no fetch is in flight"):
        fetcher.on_answer(answer())


def test_buffered_partitions_are_forgotten_and_added_again() -> None:
    fetcher = begun(1, 1, 1, max_poll_records=BATCH.records)
    assert fetcher.next_fetch() is None
    consumed: list[int] = []
    for polls in count(1):
        assert fetcher.poll() == BATCH.records
        asked = fetcher.next_fetch()
        # A partition is drained by the poll that looks for one more record than it has.
        if polls == 1:
            assert asked is None
            continue
        assert asked is not None
        (partition,) = asked.to_send
        consumed.append(partition)
        assert asked.to_send[partition] == BATCH.records
        expected = {0, 1, 2} - {partition} if polls == 2 else {consumed[-2]}
        assert (set(asked.to_forget), asked.session_epoch) == (expected, polls - 1)
        if polls == 3:
            break
        fetcher.on_answer(answer((partition, BATCH.records, 1)))
    assert len(set(consumed)) == 2


def test_an_empty_partition_of_a_full_response_is_fetched_after_those_before_it() -> None:
    fetcher = JavaFetcher(TOPIC, range(2), FetchLimits(max_poll_records=BATCH.records + 1))
    asked = fetcher.next_fetch()
    assert asked is not None
    first, second = asked.to_send
    fetcher.on_answer(answer((first, 0, 2), (second, 0, 0)))
    assert fetcher.poll() == BATCH.records + 1
    assert fetcher.next_fetch() is None
    assert fetcher.poll() == BATCH.records - 1
    asked = fetcher.next_fetch()
    assert asked is not None
    assert asked.to_send == {first: 2 * BATCH.records}  # the other is in the session at 0 as before
    assert asked.to_forget == []


def test_a_request_lists_new_partitions_before_moved_ones() -> None:
    fetcher = begun(0, 0, 0, 0)
    assert fetcher.poll() == 0
    assert fetcher.next_fetch() == FetchAsked({}, [], SESSION, 1)
    first, *_, last = sorted(range(4), key=lambda each: hash_code(TOPIC, each) % 16)
    many = 600 // BATCH.records
    fetcher.on_answer(answer((last, 0, many)))
    assert fetcher.poll() == 500
    assert fetcher.next_fetch() == FetchAsked({}, [last], SESSION, 2)
    fetcher.on_answer(answer((first, 0, 1)))
    assert fetcher.poll() == (many + 1) * BATCH.records - 500
    asked = fetcher.next_fetch()
    assert asked is not None
    assert list(asked.to_send) == [last, first]


@pytest.mark.parametrize(
    ("code", "session"),
    [(ErrorCode.fetch_session_id_not_found, 0), (ErrorCode.invalid_fetch_session_epoch, SESSION)],
    ids=["lost", "epoch"],
)
def test_after_a_session_error_all_partitions_are_fetched(code: ErrorCode, session: int) -> None:
    fetcher = begun(0, 0)
    fetcher.poll()
    assert fetcher.next_fetch() == FetchAsked({}, [], SESSION, 1)
    fetcher.on_answer(answer(code=code, session=0))
    asked = fetcher.next_fetch()
    assert asked is not None
    assert (asked.session_id, asked.session_epoch, len(asked.to_send)) == (session, 0, 2)


def test_a_full_response_without_a_partition_is_rejected() -> None:
    fetcher = JavaFetcher(TOPIC, range(2))
    fetcher.next_fetch()
    with pytest.raises(LoadFailed, match=r"was answered with partitions \[1\]"):
        fetcher.on_answer(answer((1, 0, 1)))


# -- the section -------------------------------------------------------------


def test_the_section_reads_every_record_of_six_partitions_and_of_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("sessions")
    section = sessions_section(Bench(SMOKE, folder, lambda _: None))
    (row,) = section.rows
    assert row.ratio is not None
    assert row.ratio > 0
    assert row.numbers["fetches"] >= 1
    assert list(folder.iterdir()) == []
