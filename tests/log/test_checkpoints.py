"""Checkpoint files: Kafka's text, byte for byte, and what counts as damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import TopicPartition
from barnabas.log.checkpoints import (
    CorruptCheckpoint,
    decode_epoch_checkpoint,
    decode_offset_checkpoint,
    encode_epoch_checkpoint,
    encode_offset_checkpoint,
)
from barnabas.log.leader_epochs import EpochEntry

OFFSETS = {
    TopicPartition("orders", 0): 1500,
    TopicPartition("a.b_c-d", 12): 2**63 - 1,
}
OFFSET_TEXT = b"0\n2\norders 0 1500\na.b_c-d 12 9223372036854775807\n"
EPOCHS = [EpochEntry(0, 0), EpochEntry(3, 1200)]
EPOCH_TEXT = b"0\n2\n0 0\n3 1200\n"


def test_offsets_are_written_as_kafka_writes_them() -> None:
    assert encode_offset_checkpoint(OFFSETS) == OFFSET_TEXT
    assert decode_offset_checkpoint(OFFSET_TEXT) == OFFSETS


def test_epochs_are_written_as_kafka_writes_them() -> None:
    assert encode_epoch_checkpoint(EPOCHS) == EPOCH_TEXT
    assert decode_epoch_checkpoint(EPOCH_TEXT) == EPOCHS


def test_no_entries_are_a_version_and_a_zero() -> None:
    assert encode_offset_checkpoint({}) == b"0\n0\n"
    assert decode_offset_checkpoint(b"0\n0\n") == {}


def test_a_file_that_was_only_created_holds_no_entries() -> None:
    assert decode_offset_checkpoint(b"") == {}
    assert decode_epoch_checkpoint(b"") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"1\n0\n", "unknown version '1', expected '0'"),
        (b"\n", "unknown version ''"),
        (b"\0\0\0\0", "cut off: the last line has no end"),
        (b"0\n1\nt 0 5", "cut off: the last line has no end"),
        (b"0\n", "line 2 should count the entries, not ''"),
        (b"0\nx\n", "line 2 should count the entries, not 'x'"),
        (b"0\n-1\n", "line 2 should count the entries, not '-1'"),
        (b"0\n2\nt 0 5\n", "2 entries expected, 1 found"),
        (b"0\n1\nt 0 5\nt 1 6\n", "1 entries expected, 2 found"),
        (b"0\n1\nt 0 5\n\n", "line 4 is malformed: ''"),
        (b"0\n1\nt 0\n", "line 3 is malformed: 't 0'"),
        (b"0\n1\nt 0 5 6\n", "line 3 is malformed"),
        (b"0\n1\nt x 5\n", "line 3 is malformed"),
        (b"0\n1\nt 0 -5\n", "line 3 is malformed"),
        (b"0\n1\nt 0 1_0\n", "line 3 is malformed"),
        (b"0\n1\n\xff 0 5\n", "not UTF-8 at byte 4"),
    ],
)
def test_each_kind_of_damage_has_its_own_message(text: bytes, complaint: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=complaint):
        decode_offset_checkpoint(text)


def test_a_malformed_epoch_is_damage_too() -> None:
    with pytest.raises(CorruptCheckpoint, match="line 4 is malformed: '3'"):
        decode_epoch_checkpoint(b"0\n2\n0 0\n3\n")


topics = st.text("abcXYZ019._-", min_size=1, max_size=20)


@given(
    st.dictionaries(
        st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)
    )
)
def test_what_was_written_is_read_back(offsets: dict[TopicPartition, int]) -> None:
    assert decode_offset_checkpoint(encode_offset_checkpoint(offsets)) == offsets


@pytest.mark.parametrize("length", range(1, len(OFFSET_TEXT)))
def test_a_torn_file_never_passes_for_a_whole_one(length: int) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offset_checkpoint(OFFSET_TEXT[:length])
