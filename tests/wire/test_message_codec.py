"""Messages of our own schemas: every version, flexible or not, and bytes that are damaged."""

import contextlib
import dataclasses
import io
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.describe_controller import DescribeControllerResponse
from barnabas.wire.message_codec import NEVER, MalformedMessage, MessageCodec, VersionedCodec
from barnabas.wire.message_schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    always_tagged,
    since,
)
from barnabas.wire.schema import read_body, request_type, response_type, write_body
from barnabas.wire.varint import uvarint
from tests.wire.entities import SERVED, entities

OWN = [
    kind(key, version)
    for key, version in SERVED
    if key
    in (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
    )
    for kind in (request_type, response_type)
]


@dataclass(frozen=True, slots=True)
class Partitions:
    topic: str = field(metadata=STRING)
    partition_ids: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class TransactionValue:
    """As a record of `__transaction_state` is: flexible since version 1."""

    producer_id: int = field(metadata=INT64)
    producer_epoch: int = field(metadata=INT16)
    timeout_ms: int = field(metadata=INT32)
    status: int = field(metadata=INT8)
    partitions: tuple[Partitions, ...] | None
    last_update_timestamp_ms: int = field(metadata=INT64)
    start_timestamp_ms: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True)
class Everything:
    """Every kind of field; what is newer than version 0 has a default."""

    flag: bool = field(metadata=BOOL)
    text: str | None = field(metadata=STRING)
    data: bytes | None = field(metadata=BYTES)
    topic_id: uuid.UUID = field(metadata=UUID)
    names: tuple[str, ...] | None = field(metadata=STRING)
    numbers: tuple[int, ...] | None = field(metadata=INT64)
    part: Partitions | None
    newer: int = field(metadata=since(1, INT8), default=7)
    tagged: int = field(metadata=since(2, INT16, tag=0), default=3)
    always: Partitions | None = field(metadata=always_tagged(5), default=None)


EVERYTHING = Everything(
    True, "text", b"data", uuid.UUID(int=5), ("a", ""), (1, -1), Partitions("t", (0, 1)), 9, 4
)
NOTHING = Everything(False, None, None, uuid.UUID(int=0), None, None, None)
CODECS = [
    MessageCodec(Everything, version=version, flexible=flexible)
    for version in range(3)
    for flexible in (False, True)
]


@pytest.mark.parametrize("entity", OWN, ids=lambda each: each.__name__)
@given(data=st.data())
def test_requests_and_responses_are_written_as_kio_writes_them_and_read_again(
    entity: type[Any], data: st.DataObject
) -> None:
    message = data.draw(entities(entity))
    out = io.BytesIO()
    entity_writer(entity)(out, message)
    assert write_body(entity, message) == out.getvalue()
    assert read_body(entity, memoryview(out.getvalue())) == message


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("message", [EVERYTHING, NOTHING])
def test_a_message_is_read_as_it_was_written(codec: MessageCodec, message: Everything) -> None:
    read = codec.decode(codec.encode(message))
    assert dataclasses.replace(read, newer=message.newer, tagged=message.tagged) == message
    assert codec.encode(read) == codec.encode(message)


def test_fields_that_are_newer_than_the_version_have_their_default() -> None:
    oldest = MessageCodec(Everything, version=0, flexible=True)
    read = oldest.decode(oldest.encode(EVERYTHING))
    assert (read.newer, read.tagged) == (7, 3)


def test_a_tagged_field_is_written_unless_it_has_its_default() -> None:
    codec = MessageCodec(Everything, version=2, flexible=True)
    null = b"\x05\x01\x00"  # tag 5 with one byte: null, which is always written
    assert codec.encode(dataclasses.replace(EVERYTHING, tagged=3)).endswith(b"\x01" + null)
    assert codec.encode(EVERYTHING).endswith(b"\x02\x00\x02\x00\x04" + null)


@pytest.mark.parametrize("codec", CODECS)
def test_a_message_that_ends_early_is_malformed(codec: MessageCodec) -> None:
    written = codec.encode(EVERYTHING)
    for length in range(len(written)):
        with pytest.raises(MalformedMessage):
            codec.decode(written[:length])


@given(st.sampled_from(CODECS), st.binary(max_size=80))
def test_any_bytes_are_a_message_or_malformed(codec: MessageCodec, data: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        codec.decode(data)


@pytest.mark.parametrize("count", [2**31 - 1, -2])
def test_an_array_that_cannot_be_there_is_malformed(count: int) -> None:
    codec = MessageCodec(Partitions, flexible=False)
    with pytest.raises(MalformedMessage):
        codec.decode(b"\0\1t" + count.to_bytes(4, "big", signed=True))


def test_unknown_tags_are_skipped() -> None:
    codec = MessageCodec(Partitions, flexible=True)
    message = Partitions("t", (1,))
    unknown = b"\x01" + uvarint(9999) + uvarint(5) + b"hello"
    assert codec.decode(codec.encode(message)[:-1] + unknown) == message


def test_a_value_begins_with_its_version() -> None:
    codec = VersionedCodec(TransactionValue, newest=1, flexible=1)
    open_transaction = TransactionValue(7, 0, 60_000, 1, (Partitions("t", (0, 300)),), 5, 4)
    no_partitions = dataclasses.replace(open_transaction, partitions=None)
    for version in (0, 1):
        for value in (open_transaction, no_partitions):
            written = codec.encode(value, version)
            assert written[:2] == bytes([0, version])
            assert codec.decode(written) == value
    plain = codec.encode(no_partitions, 0)
    assert plain[17:21] == b"\xff\xff\xff\xff"
    assert len(plain) == 2 + 8 + 2 + 4 + 1 + 4 + 8 + 8


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\2\0\0\0\0", b"\xff\xff"])
def test_a_value_of_an_unknown_version_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        VersionedCodec(Partitions, newest=1).decode(data)


def test_a_later_version_is_read_as_the_newest_where_versions_only_add_fields() -> None:
    codec = VersionedCodec(Partitions, newest=1, flexible=NEVER, reads_newer=True)
    written = codec.encode(Partitions("t", (1,)), 1)
    assert codec.decode(b"\0\x09" + written[2:] + b"more") == Partitions("t", (1,))


def test_the_state_of_a_controller_may_be_a_long_text() -> None:
    response = DescribeControllerResponse(error_code=ErrorCode.none, state="x" * 5_000_000)
    body = write_body(DescribeControllerResponse, response)
    assert read_body(DescribeControllerResponse, memoryview(body)) == response


def test_a_string_that_no_message_can_hold_is_refused() -> None:
    with pytest.raises(BrokerError):
        MessageCodec(Partitions, flexible=True).encode(Partitions("x" * 40_000, ()))
