"""The internal topic of a coordinator: its partitions by key, its settings, its error codes."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.wire.records.compression import Codec

# The error that a client gets when its records are not committed; other codes are passed on.
APPEND_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


@dataclass(frozen=True, slots=True)
class CoordinatorTopic:
    """`noun` is what a shard holds one or more of: it names the logger and stands in log events."""

    name: str
    noun: str
    codec: Codec
    load_buffer_size: int
    commit_timeout_ms: int
    # If true, records are replayed when they are committed, and loading ends when all of them are.
    replays_when_committed: bool = False
    # If false, which only a test of the safeguards wants, records count as committed when appended.
    awaits_replicas: bool = True
    # Of an append, as clients see them.
    errors: Mapping[ErrorCode, ErrorCode] = field(default_factory=lambda: APPEND_ERRORS)

    @property
    def logger(self) -> logging.Logger:
        return logging.getLogger(f"barnabas.{self.noun}s")

    def error(self, code: ErrorCode) -> ErrorCode:
        return self.errors.get(code, code)


# Every request of a transaction asks for the same id, some of them several times.
@lru_cache(10_000)
def partition_of(key: str, partitions: int) -> int:
    """The partition of a group id or transactional id, as Kafka's: by Java's String.hashCode."""
    value = 0
    for unit in _utf16(key):
        value = (31 * value + unit) & 0xFFFFFFFF
    # As Kafka's Utils.abs: the least integer, which has no positive twin, becomes 0.
    signed = value - (1 << 32) if value & 0x80000000 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def _utf16(text: str) -> memoryview:
    return memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
