"""Records of `__consumer_offsets`: byte for byte those of Apache Kafka's own classes."""

import contextlib
import dataclasses
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError
from barnabas.groups.records.classic_group_record import GroupMetadata, GroupMetadataValue
from barnabas.groups.records.consumer_group_records import ConsumerGroupMemberMetadata
from barnabas.groups.records.group_records import (
    CommittedOffset,
    GroupRecord,
    MalformedRecord,
    OffsetCommit,
    decode,
    encode,
)
from tests.golden.group_records import FILE, RECORDS, Written

# The versions that Kafka 3.9 writes; it reads the others, and so do we.
WRITTEN = {"commit": 3, "terse commit": 3, "group": 3, "empty group": 3}
BY_NAME = {f"{each.name} {each.version}": each for each in RECORDS}
KAFKAS = {
    name: (bytes.fromhex(of["key"]), bytes.fromhex(of["value"]))
    for name, of in json.loads(FILE.read_text()).items()
}
WE_WRITE = [
    name
    for name, each in BY_NAME.items()
    if each.version == WRITTEN.get(each.name, 0) or name == "commit 1"
]


def without_value(record: GroupRecord) -> GroupRecord:
    if isinstance(record, OffsetCommit):
        return record._replace(value=None)
    return dataclasses.replace(record, value=None)


@pytest.mark.parametrize("name", BY_NAME)
def test_what_kafka_writes_is_read(name: str) -> None:
    assert decode(*KAFKAS[name]) == BY_NAME[name].read


@pytest.mark.parametrize("name", WE_WRITE)
def test_what_is_written_are_kafkas_bytes(name: str) -> None:
    assert encode(BY_NAME[name].record) == KAFKAS[name]


@pytest.mark.parametrize("each", RECORDS, ids=BY_NAME)
def test_a_record_without_a_value_has_kafkas_key_and_is_read_again(each: Written) -> None:
    removal = without_value(each.record)
    key, value = encode(removal)
    assert (key, value) == (KAFKAS[f"{each.name} {each.version}"][0], None)
    assert decode(key, None) == removal


def test_offset_commits_with_keys_of_kafkas_first_version_are_read() -> None:
    key, value = KAFKAS["commit 0"]
    assert decode(b"\0\0" + key[2:], value) == BY_NAME["commit 0"].read


def test_a_record_is_read_where_it_lies() -> None:
    for name, (key, value) in KAFKAS.items():
        assert decode(memoryview(key), memoryview(value)) == BY_NAME[name].read


def test_tagged_fields_that_are_not_known_are_passed_over() -> None:
    newer = b"\x01\x05\x03abc"  # one field, with tag 5 and three bytes
    for name in ("commit 4", "epoch 0"):
        key, value = KAFKAS[name]
        assert decode(key, value[:-1] + newer) == BY_NAME[name].read


def test_records_of_unknown_types_are_skipped_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        for number in (9, 9, 31_007, 9):
            assert decode(number.to_bytes(2, "big") + b"\0\1g", b"\0\0") is None
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == len(set(told))
    assert any("type=31007" in line for line in told)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_record_that_ends_early_is_malformed(name: str) -> None:
    key, value = KAFKAS[name]
    for length in range(len(key)):
        with pytest.raises(MalformedRecord):
            decode(key[:length], value)
    # The tags at the end of an offset commit are not looked at.
    for length in range(len(value) - (name == "commit 4")):
        with pytest.raises(MalformedRecord):
            decode(key, value[:length])


@pytest.mark.parametrize("name", ["commit 3", "group 3", "epoch 0"])
def test_a_value_of_an_unknown_version_is_malformed(name: str) -> None:
    key, value = KAFKAS[name]
    for version in (-1, 5, 300):
        with pytest.raises(MalformedRecord):
            decode(key, version.to_bytes(2, "big", signed=True) + value[2:])


@given(st.sampled_from(sorted(KAFKAS)), st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_bytes_that_were_damaged_are_read_as_something_or_are_malformed(
    name: str, position: int, noise: bytes
) -> None:
    key, value = KAFKAS[name]
    position %= len(value)
    damaged = value[:position] + noise + value[position + len(noise) :]
    with contextlib.suppress(MalformedRecord):
        decode(key, damaged)


def test_a_string_that_no_record_can_hold_is_the_clients_fault() -> None:
    long = "x" * 40_000
    group = GroupMetadataValue(protocol_type=long, generation=1, protocol="", leader="", members=())
    unwritable: list[GroupRecord] = [
        OffsetCommit(long, "t", 0),
        OffsetCommit("g", "t", 0, CommittedOffset(0, metadata=long)),
        GroupMetadata("g", group),
        ConsumerGroupMemberMetadata("g", long),
    ]
    for record in unwritable:
        with pytest.raises(BrokerError):
            encode(record)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(TEXT, TEXT, INT32, st.tuples(INT64, INT32, TEXT, INT64), INT64)
def test_any_offset_commit_is_read_as_it_was_written(
    group_id: str, topic: str, partition: int, value: tuple[int, int, str, int], expire_ms: int
) -> None:
    record = OffsetCommit(group_id, topic, partition, CommittedOffset(*value, expire_ms))
    # The version that has an expire timestamp has no leader epoch.
    known = value[1] if expire_ms == -1 else -1
    read = CommittedOffset(value[0], known, value[2], value[3], expire_ms)
    assert decode(*encode(record)) == record._replace(value=read)
