"""Records as slices: they agree with the decoded ones, and a batch of some of them does too."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError
from barnabas.wire.records.batch import HEADER, check_crc, read_header, set_crc
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.record_slices import empty, rebuild, slice_records
from barnabas.wire.records.records import Record, build_batch, read_records

BYTES = st.one_of(st.none(), st.binary(max_size=300))
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=2).map(tuple)
CONTENT = st.tuples(st.integers(-1, 2**42), BYTES, BYTES, HEADERS, st.integers(1, 200))


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    offset, records = 1000, []
    for timestamp, key, value, headers, step in draw(st.lists(CONTENT, max_size=8)):
        offset += step
        records.append(Record(offset, timestamp, key, value, headers))
    return build_batch(
        records,
        base_offset=1000,
        last_offset=offset + 5,
        codec=draw(st.sampled_from(Codec)),
        leader_epoch=3,
        log_append_time=draw(st.one_of(st.none(), st.integers(0, 2**42))),
        producer_id=7,
        producer_epoch=2,
        base_sequence=50,
        transactional=draw(st.booleans()),
    )


@given(batch=batches())
def test_slices_agree_with_decoded_records(batch: bytearray) -> None:
    records = read_records(batch)
    _, slices = slice_records(bytes(batch), read_header(batch))
    assert [(s.offset, s.key, s.is_tombstone) for s in slices] == [
        (r.offset, r.key, r.value is None) for r in records
    ]


@given(batch=batches(), dice=st.randoms(use_true_random=False), horizon=st.integers(0, 2**42))
def test_a_rebuilt_batch_holds_the_kept_records_and_stays_what_it_was(
    batch: bytearray, dice: random.Random, horizon: int
) -> None:
    header = read_header(batch)
    records = read_records(batch)
    data, slices = slice_records(bytes(batch), header)
    chosen = [n for n in range(len(records)) if dice.random() < 0.6]
    if not chosen:
        return
    for delete_horizon in (None, horizon):
        rebuilt = rebuild(header, data, [slices[n] for n in chosen], delete_horizon)
        assert check_crc(rebuilt)
        assert read_records(rebuilt) == [records[n] for n in chosen]
        now = read_header(rebuilt)
        assert now.size == len(rebuilt)
        assert now.max_timestamp == max(records[n].timestamp for n in chosen)
        assert now.has_delete_horizon is (delete_horizon is not None)
        if delete_horizon is not None:
            assert now.base_timestamp == delete_horizon
        for field in ("base_offset", "last_offset", "leader_epoch", "producer_id", "codec"):
            assert getattr(now, field) == getattr(header, field)
        assert (now.producer_epoch, now.base_sequence) == (2, 50)
        assert now.last_sequence == header.last_sequence
        assert now.is_transactional is header.is_transactional
        # A second pass keeps the horizon that the first has set.
        again = rebuild(now, *slice_records(bytes(rebuilt), now))
        assert read_header(again).has_delete_horizon is now.has_delete_horizon
        assert read_records(again) == read_records(rebuilt)


@given(batch=batches())
def test_an_emptied_batch_keeps_its_range_and_its_producer(batch: bytearray) -> None:
    header, emptied = read_header(batch), empty(read_header(batch))
    now = read_header(emptied)
    assert check_crc(emptied)
    assert len(emptied) == now.size == 61
    assert not read_records(emptied)
    assert not slice_records(bytes(emptied), now)[1]
    assert now.last_offset == header.last_offset
    assert now.last_sequence == header.last_sequence
    assert (now.codec, now.has_delete_horizon, now.base_timestamp) == (0, False, -1)
    assert now.max_timestamp == header.max_timestamp


@given(batch=batches(), dice=st.randoms(use_true_random=False))
def test_damaged_records_raise_nothing_but_broker_errors(
    batch: bytearray, dice: random.Random
) -> None:
    for _ in range(20):
        harmed = bytearray(batch)
        harmed[dice.randrange(57, len(harmed))] ^= 1 << dice.randrange(8)
        header = read_header(harmed)
        if header.record_count > 10_000:
            continue
        with suppress(BrokerError):
            slice_records(bytes(harmed), header)


def test_a_batch_that_claims_other_records_than_it_has_is_corrupt() -> None:
    batch = build_batch([Record(0, 0, b"k", b"v"), Record(1, 0, b"k", b"v")])
    for count in (1, 3):
        HEADER.pack_into(batch, 0, *read_header(batch)._replace(record_count=count))
        set_crc(batch)
        with pytest.raises(BrokerError):
            slice_records(bytes(batch), read_header(batch))
