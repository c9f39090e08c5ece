"""Versions that clients of Kafka 0.8 to 0.11 send, byte by byte as they send them."""

import gzip
import socket
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.server.requests.old_formats import MOST_FETCHED
from tests.server.admin.client import Client
from tests.server.admin.running import Running, broker

CONSUMER = -1
LATEST, EARLIEST = -1, -2
OUT_OF_RANGE, CORRUPT = 1, 2
UNKNOWN_TOPIC, TOO_LARGE, INVALID_GROUP, UNSUPPORTED = 3, 12, 24, 35
INVALID_RECORD = 87
PRODUCE, FETCH = 0, 1
LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, CREATE_TOPICS, DELETE_TOPICS = 2, 8, 9, 19, 20
OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS = 23, 32, 35
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
NO_TIME = struct.pack(">q", -1)


class OldClient:
    """One connection that writes and reads bytes, without a schema."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._stream = self._socket.makefile("rb")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def tell(self, key: int, version: int, body: bytes) -> None:
        frame = struct.pack(">hhih3s", key, version, 7, 3, b"old") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def ask(self, key: int, version: int, body: bytes) -> bytes:
        """The body of the answer."""
        self.tell(key, version, body)
        size, correlation_id = struct.unpack(">ii", self._stream.read(8))
        assert correlation_id == 7
        return self._stream.read(size - 4)


@pytest.fixture
def old(shared: Running) -> Iterator[OldClient]:
    client = OldClient(shared.port)
    yield client
    client.close()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    client.create(name)
    return name


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def one_partition(topic: str, partition: bytes) -> bytes:
    """An array of one topic with one partition."""
    return struct.pack(">i", 1) + text(topic) + struct.pack(">i", 1) + partition


def list_offsets(topic: str, timestamp: int, most: int, replica: int = CONSUMER) -> bytes:
    asked = struct.pack(">iqi", 0, timestamp, most)
    return struct.pack(">i", replica) + one_partition(topic, asked)


def listed(topic: str, error: int, *offsets: int) -> bytes:
    told = struct.pack(f">ihi{len(offsets)}q", 0, error, len(offsets), *offsets)
    return one_partition(topic, told)


class TestListOffsets:
    def test_the_ends_of_a_log_and_the_segments_between_them(self, tmp_path: Path) -> None:
        with broker(tmp_path) as running, running.client() as client:
            client.create("t", 1, segment_bytes="200")
            for _ in range(4):
                client.produce("t", [b"x" * 100])
            old = OldClient(running.port)
            latest, earliest = list_offsets("t", LATEST, 9), list_offsets("t", EARLIEST, 9)
            assert old.ask(LIST_OFFSETS, 0, latest) == listed("t", 0, 4, 3, 2, 1, 0)
            assert old.ask(LIST_OFFSETS, 0, earliest) == listed("t", 0, 0)
            assert old.ask(LIST_OFFSETS, 0, list_offsets("t", LATEST, 2)) == listed("t", 0, 4, 3)
            assert old.ask(LIST_OFFSETS, 0, list_offsets("t", LATEST, -1)) == listed("t", 0)
            soon = int(time.time() * 1000) + 60_000
            assert old.ask(LIST_OFFSETS, 0, list_offsets("t", soon, 1)) == listed("t", 0, 4)
            assert old.ask(LIST_OFFSETS, 0, list_offsets("t", 1_000, 1)) == listed("t", 0)
            old.close()

    def test_an_empty_log_ends_where_it_begins(self, old: OldClient, topic: str) -> None:
        for timestamp in (LATEST, EARLIEST):
            asked = list_offsets(topic, timestamp, 5)
            assert old.ask(LIST_OFFSETS, 0, asked) == listed(topic, 0, 0)

    def test_errors_come_without_offsets(self, old: OldClient, topic: str) -> None:
        asked = list_offsets("missing", LATEST, 1)
        assert old.ask(LIST_OFFSETS, 0, asked) == listed("missing", UNKNOWN_TOPIC)
        asked = list_offsets(topic, -3, 1)
        assert old.ask(LIST_OFFSETS, 0, asked) == listed(topic, UNSUPPORTED)


def commit_v0(group: str, topic: str, offset: int, metadata: str = "", partition: int = 0) -> bytes:
    committed = struct.pack(">iq", partition, offset) + text(metadata)
    return text(group) + one_partition(topic, committed)


def fetch(group: str, topic: str, partition: int = 0) -> bytes:
    return text(group) + one_partition(topic, struct.pack(">i", partition))


def fetched(topic: str, offset: int, error: int = 0, metadata: str = "") -> bytes:
    told = struct.pack(">iq", 0, offset) + text(metadata) + struct.pack(">h", error)
    return one_partition(topic, told)


def committed(topic: str, error: int = 0, partition: int = 0) -> bytes:
    return one_partition(topic, struct.pack(">ih", partition, error))


class TestOffsetsInTheTree:
    def test_an_offset_is_fetched_as_it_was_committed(self, old: OldClient, topic: str) -> None:
        assert old.ask(OFFSET_FETCH, 0, fetch("g", topic)) == fetched(topic, -1, UNKNOWN_TOPIC)
        for offset in (7, 8):
            assert old.ask(OFFSET_COMMIT, 0, commit_v0("g", topic, offset, "m")) == committed(topic)
            assert old.ask(OFFSET_FETCH, 0, fetch("g", topic)) == fetched(topic, offset)

    def test_it_is_where_kafka_writes_it_and_outlives_the_broker(self, tmp_path: Path) -> None:
        with broker(tmp_path) as running, running.client() as client:
            client.create("t")
            old = OldClient(running.port)
            assert old.ask(OFFSET_COMMIT, 0, commit_v0("g", "t", 7)) == committed("t")
            old.close()
        with broker(tmp_path) as running:
            old = OldClient(running.port)
            assert old.ask(OFFSET_FETCH, 0, fetch("g", "t")) == fetched("t", 7)
            old.close()

    def test_a_commit_that_cannot_be_kept_is_refused(self, old: OldClient, topic: str) -> None:
        assert old.ask(OFFSET_COMMIT, 0, commit_v0("g", "missing", 1)) == committed(
            "missing", UNKNOWN_TOPIC
        )
        assert old.ask(OFFSET_COMMIT, 0, commit_v0("g", topic, 1, partition=5)) == committed(
            topic, UNKNOWN_TOPIC, 5
        )
        long = commit_v0("g", topic, 1, "m" * 5_000)
        assert old.ask(OFFSET_COMMIT, 0, long) == committed(topic, TOO_LARGE)
        for group in ("", "..", "a//b"):
            assert old.ask(OFFSET_COMMIT, 0, commit_v0(group, topic, 1)) == committed(
                topic, INVALID_GROUP
            )


def test_a_commit_of_version_1_has_a_time_for_each_offset_and_goes_to_the_coordinator(
    old: OldClient, topic: str
) -> None:
    commit = struct.pack(">iqq", 0, 7, int(time.time() * 1000)) + text("m")
    body = text("g1") + struct.pack(">i", -1) + text("") + one_partition(topic, commit)
    deadline = time.monotonic() + 20
    while old.ask(OFFSET_COMMIT, 1, body) != committed(topic):
        old.ask(10, 0, text("g1"))  # FindCoordinator creates __consumer_offsets
        assert time.monotonic() < deadline
    assert old.ask(OFFSET_FETCH, 1, fetch("g1", topic)) == fetched(topic, 7, metadata="m")
    assert old.ask(OFFSET_FETCH, 0, fetch("g1", topic)) == fetched(topic, -1, UNKNOWN_TOPIC)


@pytest.mark.parametrize("version", [0, 1])
def test_topics_are_created_and_deleted(old: OldClient, client: Client, version: int) -> None:
    name = f"created-{version}"
    config = text("retention.ms") + text("1000")
    topic = text(name) + struct.pack(">ihi", 2, 1, 0) + struct.pack(">i", 1) + config
    create = struct.pack(">i", 1) + topic + struct.pack(">i", 10_000) + b"\0" * version
    no_message = b"\xff\xff" * version
    done = struct.pack(">i", 1) + text(name) + struct.pack(">h", 0)
    assert old.ask(CREATE_TOPICS, version, create) == done + no_message
    assert client.offset(name, LATEST, 1) == 0
    again = old.ask(CREATE_TOPICS, version, create)
    exists = struct.pack(">i", 1) + text(name) + struct.pack(">h", 36)
    assert again[: len(exists)] == exists
    assert len(again) > len(exists) if version else again == exists
    delete = struct.pack(">i", 1) + text(name) + struct.pack(">i", 10_000)
    assert old.ask(DELETE_TOPICS, 0, delete) == done
    missing = struct.pack(">i", 1) + text(name) + struct.pack(">h", UNKNOWN_TOPIC)
    assert old.ask(DELETE_TOPICS, 0, delete) == missing


@pytest.mark.parametrize("version", [0, 1])
def test_the_end_of_an_epoch(old: OldClient, client: Client, topic: str, version: int) -> None:
    client.produce(topic, [b"a", b"b"])
    asked = one_partition(topic, struct.pack(">ii", 0, 0))
    epoch = struct.pack(">i", 0) * version
    told = struct.pack(">hi", 0, 0) + epoch + struct.pack(">q", 2)
    assert old.ask(OFFSET_FOR_LEADER_EPOCH, version, asked) == one_partition(topic, told)


def test_a_property_is_the_default_or_not(old: OldClient, client: Client) -> None:
    client.create("described", 1, retention_ms="123")
    keys = struct.pack(">i", 2) + text("retention.ms") + text("segment.bytes")
    resource = struct.pack(">b", 2) + text("described")
    answer = old.ask(DESCRIBE_CONFIGS, 0, struct.pack(">i", 1) + resource + keys)
    head = struct.pack(">iih", 0, 1, 0) + text("") + resource + struct.pack(">i", 2)
    set_here = text("retention.ms") + text("123") + b"\0\0\0"
    default = text("segment.bytes") + text("1073741824") + b"\0\1\0"
    assert answer in (head + set_here + default, head + default + set_here)


def test_log_directories_are_described(old: OldClient, topic: str) -> None:
    answer = old.ask(DESCRIBE_LOG_DIRS, 0, one_partition(topic, struct.pack(">i", 0)))
    throttle_ms, count, error, length = struct.unpack_from(">iihh", answer)
    assert (throttle_ms, count, error) == (0, 1, 0)
    assert answer[12 + length :] == one_partition(topic, struct.pack(">iqq?", 0, 0, 0, False))


def message(magic: int, offset: int, value: bytes, codec: int = 0) -> bytes:
    """One message of that magic without a key, at no time."""
    body = bytes((magic, codec)) + (NO_TIME if magic else b"") + struct.pack(">ii", -1, len(value))
    body += value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def produce(topic: str, messages: bytes, acks: int = -1, partition: int = 0) -> bytes:
    sent = struct.pack(">i", partition) + sized(messages)
    return struct.pack(">hi", acks, 5000) + one_partition(topic, sent)


def fetch_from(offset: int, topic: str, version: int) -> bytes:
    most = struct.pack(">i", 2**20) if version >= 3 else b""
    asked = struct.pack(">iqi", 0, offset, 2**20)
    return struct.pack(">iii", -1, 0, 0) + most + one_partition(topic, asked)


def values_of_each(answer: bytes, topic: str, value: bytes) -> list[int]:
    """How many messages with that value each partition has in a Fetch response of version 0."""
    at, found = 4 + len(text(topic)) + 4, []
    while at < len(answer):
        (size,) = struct.unpack_from(">i", answer, at + 14)
        found.append(answer.count(value, at + 18, at + 18 + size))
        at += 18 + size
    return found


class TestMessageSets:
    """Produce 0 to 2 and Fetch 0 to 3, of Kafka 0.8 to 0.10."""

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_messages_are_appended_and_fetched(
        self, old: OldClient, topic: str, version: int
    ) -> None:
        magic = 1 if version == 2 else 0
        sent = [message(magic, 0, b"a") + message(magic, 1, b"b"), message(magic, 0, b"c")]
        for base, messages in ((0, sent[0]), (2, sent[1])):
            time_and_throttle = ((b"", b""), (b"", bytes(4)), (NO_TIME, bytes(4)))[version]
            done = struct.pack(">ihq", 0, 0, base) + time_and_throttle[0]
            answer = old.ask(PRODUCE, version, produce(topic, messages))
            assert answer == one_partition(topic, done) + time_and_throttle[1]
        for fetching in range(4):
            found = b"".join(message(fetching // 2, at, b"abc"[at : at + 1]) for at in (1, 2))
            told = struct.pack(">ihq", 0, 0, 3) + sized(found)
            answer = old.ask(FETCH, fetching, fetch_from(1, topic, fetching))
            assert answer == (bytes(4) if fetching else b"") + one_partition(topic, told)

    def test_batches_of_newer_clients_are_fetched(
        self, old: OldClient, topic: str, client: Client
    ) -> None:
        client.produce(topic, [b"new"])
        answer = old.ask(FETCH, 0, fetch_from(0, topic, 0))
        assert answer == one_partition(
            topic, struct.pack(">ihq", 0, 0, 1) + sized(message(0, 0, b"new"))
        )

    @pytest.mark.parametrize("version", range(4))
    def test_a_response_has_few_messages_at_a_time(
        self, old: OldClient, topic: str, version: int
    ) -> None:
        """The broker keeps it in memory until the client has read it."""
        value = bytes(900_000)
        for _ in range(7):
            old.ask(PRODUCE, 1, produce(topic, message(0, 0, value)))
        most = struct.pack(">i", 2**31 - 1) if version == 3 else b""
        offset, fetches = 0, 0
        while offset < 7:
            asked = struct.pack(">iqi", 0, offset, 2**31 - 1)
            request = struct.pack(">iii", -1, 0, 0) + most + one_partition(topic, asked)
            answer = old.ask(FETCH, version, request)
            assert len(answer) <= MOST_FETCHED + 1_000
            offset += answer.count(value)
            fetches += 1
        assert fetches == 2

    def test_partitions_share_a_response_however_well_their_records_compress(
        self, old: OldClient, client: Client
    ) -> None:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        client.create(topic, 2)
        value = bytes(500_000)
        nested = b"".join(message(0, n, value) for n in range(20))
        compressed = message(0, 0, gzip.compress(nested), codec=1)
        for partition in (0, 1):
            old.ask(PRODUCE, 1, produce(topic, compressed, partition=partition))
        offsets = [0, 0]
        while min(offsets) < 20:
            asked = [struct.pack(">iqi", n, at, 2**31 - 1) for n, at in enumerate(offsets)]
            wanted = struct.pack(">i", 1) + text(topic) + struct.pack(">i", 2) + b"".join(asked)
            answer = old.ask(FETCH, 0, struct.pack(">iii", -1, 0, 0) + wanted)
            assert len(answer) <= MOST_FETCHED + 2 * len(value)
            found = values_of_each(answer, topic, value)
            for at, more in zip(offsets, found, strict=True):
                assert more or at == 20  # neither waits for the other one
            offsets = [at + more for at, more in zip(offsets, found, strict=True)]

    def test_nothing_is_answered_if_no_acknowledgement_is_wanted(
        self, old: OldClient, topic: str
    ) -> None:
        old.tell(PRODUCE, 0, produce(topic, message(0, 0, b"a"), acks=0))
        done = struct.pack(">ihq", 0, 0, 1)
        answer = old.ask(PRODUCE, 0, produce(topic, message(0, 0, b"b")))
        assert answer == one_partition(topic, done)

    def test_errors_are_those_of_each_partition(self, old: OldClient, topic: str) -> None:
        failed = struct.pack(">ihq", 0, UNKNOWN_TOPIC, -1)
        answer = old.ask(PRODUCE, 0, produce("missing", message(0, 0, b"a")))
        assert answer == one_partition("missing", failed)
        answer = old.ask(FETCH, 0, fetch_from(9, topic, 0))
        told = struct.pack(">ihq", 0, OUT_OF_RANGE, -1) + sized(b"")
        assert answer == one_partition(topic, told)
        answer = old.ask(PRODUCE, 0, produce(topic, b"no message set at all"))
        assert answer == one_partition(topic, struct.pack(">ihq", 0, CORRUPT, -1))

    def test_a_compacted_topic_refuses_a_message_without_a_key(
        self, old: OldClient, client: Client
    ) -> None:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        client.create(topic, 1, cleanup_policy="compact")
        answer = old.ask(PRODUCE, 0, produce(topic, message(0, 0, b"a")))
        assert answer == one_partition(topic, struct.pack(">ihq", 0, INVALID_RECORD, -1))

    def test_a_topic_may_have_conversion_disabled(self, old: OldClient, client: Client) -> None:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        client.create(topic, 1, message_downconversion_enable="false")
        client.produce(topic, [b"new"])
        for version in range(4):
            told = struct.pack(">ihq", 0, UNSUPPORTED, -1) + sized(b"")
            answer = old.ask(FETCH, version, fetch_from(0, topic, version))
            assert answer == (bytes(4) if version else b"") + one_partition(topic, told)

    def test_a_request_that_is_cut_short_ends_the_connection(
        self, old: OldClient, topic: str
    ) -> None:
        with pytest.raises((struct.error, ConnectionError)):
            old.ask(FETCH, 0, fetch_from(0, topic, 0)[:-3])


class TestAcls:
    """Version 0, of Kafka 0.11 and 1.x: the resources have literal names."""

    TOPIC = b"\x02" + text("t")
    ENTRY = text("User:u") + text("*") + b"\x03\x03"  # may read
    ANY = struct.pack(">hh", -1, -1) + b"\x01\x01"  # of any principal, host, operation, permission

    def test_an_acl_is_created_described_and_deleted(self, tmp_path: Path) -> None:
        fine = struct.pack(">hh", 0, -1)
        one = struct.pack(">i", 1)
        with broker(
            tmp_path,
            authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
            super_users="User:ANONYMOUS",
        ) as running:
            old = OldClient(running.port)
            created = old.ask(CREATE_ACLS, 0, one + self.TOPIC + self.ENTRY)
            assert created == bytes(4) + one + fine
            described = old.ask(DESCRIBE_ACLS, 0, self.TOPIC + self.ANY)
            assert described == bytes(4) + fine + one + self.TOPIC + one + self.ENTRY
            deleted = old.ask(DELETE_ACLS, 0, one + self.TOPIC + self.ANY)
            assert deleted == bytes(4) + one + fine + one + fine + self.TOPIC + self.ENTRY
            described = old.ask(DESCRIBE_ACLS, 0, self.TOPIC + self.ANY)
            assert described == bytes(4) + fine + bytes(4)
            old.close()
