"""The codec of `__transaction_state` records, in Kafka's bytes.

A key has version 0 and the transactional id. A value has version 0, or 1 where the finalized
`transaction.version` is above 0: flexible, with what version 2 needs in tagged fields.
"""

import logging
import struct
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cache, lru_cache
from struct import pack
from typing import Final

from barnabas.base.ids import TopicPartition, by_topic
from barnabas.coordinator.result import CoordinatorRecord, MalformedRecord
from barnabas.transactions.transaction_metadata import NO_PRODUCER_ID, TransactionMetadata
from barnabas.transactions.transaction_state import STATE_OF, STATUS, TransactionState
from barnabas.wire.message_codec import MalformedMessage, VersionedCodec, as_utf8
from barnabas.wire.message_schema import INT8, INT16, INT32, INT64, STRING, since
from barnabas.wire.varint import uvarint

log = logging.getLogger(__name__)

KEY_VERSION: Final = 0
_VERSION: Final = struct.Struct(">h")
_HEAD: Final = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, status
_COUNT: Final = struct.Struct(">i")
_TIMES: Final = struct.Struct(">qq")
# The partitions of a transaction stand in two of its records; those of many are not remembered.
FEW: Final = 8
SHORT_ID: Final = 100  # characters; the keys of longer ids are not remembered


@dataclass(frozen=True, slots=True)
class PartitionsValue:
    topic: str = field(metadata=STRING)
    partition_ids: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    producer_id: int = field(metadata=INT64)
    producer_epoch: int = field(metadata=INT16)
    timeout_ms: int = field(metadata=INT32)
    status: int = field(metadata=INT8)
    partitions: tuple[PartitionsValue, ...] | None
    last_update_ms: int = field(metadata=INT64)
    start_ms: int = field(metadata=INT64)
    previous_producer_id: int = field(metadata=since(1, INT64, tag=0), default=NO_PRODUCER_ID)
    next_producer_id: int = field(metadata=since(1, INT64, tag=1), default=NO_PRODUCER_ID)
    client_version: int = field(metadata=since(1, INT16, tag=2), default=0)


VALUE: Final = VersionedCodec(TransactionLogValue, newest=1, flexible=1)


def encode_key(transactional_id: str) -> bytes:
    """Raises  BrokerError(invalid_request), if the id is longer than a record can hold."""
    is_short = len(transactional_id) <= SHORT_ID
    return _encode_short(transactional_id) if is_short else _encode_key(transactional_id)


def _encode_key(transactional_id: str) -> bytes:
    encoded = as_utf8(transactional_id)
    return _VERSION.pack(KEY_VERSION) + _VERSION.pack(len(encoded)) + encoded


_encode_short: Final = lru_cache(10_000)(_encode_key)


def encode(metadata: TransactionMetadata, version: int) -> CoordinatorRecord:
    """The record as it is written where `transaction.version` is `version`."""
    is_flexible = max(version, metadata.client_version) > 0
    return CoordinatorRecord(
        encode_key(metadata.transactional_id), _encode_value(metadata, is_flexible)
    )


def _encode_value(metadata: TransactionMetadata, is_flexible: bool) -> bytes:
    """A TransactionLogValue; by hand, since each transaction writes three of them."""
    value = bytearray(
        _HEAD.pack(
            is_flexible,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.timeout_ms,
            STATUS[metadata.state],
        )
    )
    partitions = metadata.partitions
    if metadata.state is TransactionState.EMPTY:
        # Kafka writes null for a producer without a transaction.
        value += b"\0" if is_flexible else _COUNT.pack(-1)
    elif len(partitions) <= FEW:
        value += _encode_few(partitions, is_flexible)
    else:
        value += _encode_partitions(partitions, is_flexible)
    value += _TIMES.pack(metadata.last_update_ms, metadata.start_ms)
    if is_flexible:
        value += _tagged(metadata)
    return bytes(value)


def _encode_partitions(partitions: Set[TopicPartition], is_flexible: bool) -> bytes:
    topics = by_topic(sorted(partitions))
    value = bytearray(uvarint(len(topics) + 1) if is_flexible else _COUNT.pack(len(topics)))
    for topic, ids in topics.items():
        name = as_utf8(topic)
        if is_flexible:
            value += uvarint(len(name) + 1) + name + uvarint(len(ids) + 1)
            value += pack(f">{len(ids)}ix", *ids)
        else:
            value += _VERSION.pack(len(name)) + name + pack(f">i{len(ids)}i", len(ids), *ids)
    return bytes(value)


_encode_few: Final = lru_cache(1_000)(_encode_partitions)


def _tagged(metadata: TransactionMetadata) -> bytes:
    tagged = []
    if metadata.previous_producer_id != NO_PRODUCER_ID:
        tagged.append(pack(">BBq", 0, 8, metadata.previous_producer_id))
    if metadata.next_producer_id != NO_PRODUCER_ID:
        tagged.append(pack(">BBq", 1, 8, metadata.next_producer_id))
    if metadata.client_version:
        tagged.append(pack(">BBh", 2, 2, metadata.client_version))
    return bytes((len(tagged),)) + b"".join(tagged)


def decode_id(key: bytes | memoryview) -> str | None:
    """The transactional id, or None if a newer broker wrote a key that we do not know.

    Raises  MalformedRecord
    """
    try:
        (version,) = _VERSION.unpack_from(key)
        if version != KEY_VERSION:
            _log_unknown(version)
            return None
        (length,) = _VERSION.unpack_from(key, 2)
        if length < 0 or 4 + length > len(key):
            raise MalformedRecord(f"a key has an id of {length} bytes")
        return str(key[4 : 4 + length], "utf-8")
    except (struct.error, UnicodeDecodeError) as wrong:
        raise MalformedRecord(f"a key is malformed: {wrong}") from wrong


def decode(transactional_id: str, data: bytes | memoryview) -> TransactionMetadata:
    """Raises  MalformedRecord, if the bytes are not what their version promises."""
    try:
        value: TransactionLogValue = VALUE.decode(data)
    except (struct.error, UnicodeDecodeError, MalformedMessage) as wrong:
        raise MalformedRecord(f"a record is malformed: {wrong}") from wrong
    if value.status not in STATE_OF:
        raise MalformedRecord(f"{transactional_id} has status {value.status}")
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        state=STATE_OF[value.status],
        partitions=frozenset(
            TopicPartition(each.topic, partition)
            for each in value.partitions or ()
            for partition in each.partition_ids
        ),
        last_update_ms=value.last_update_ms,
        start_ms=value.start_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_version,
    )


@cache
def _log_unknown(version: int) -> None:
    """Once for each version."""
    log.warning("ignoring records with an unknown key version=%d", version)
