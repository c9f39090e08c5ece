"""The contract of a broker with every Kafka client; each client's test file runs all of it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import pytest

from barnabas.base.clock import SystemClock
from barnabas.wire.records.batch import BatchHeader, headers
from barnabas.wire.records.compression import Codec
from tests.support.broker import BrokerProcess
from tests.support.clients import CODECS, END, LONG_POLL_MS, Admin, Client, Message, Refused, Stored

UNKNOWN_SERVER_ERROR = -1
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
INVALID_RECORD = 87

# As large as a message may be by default, but for what its batch needs besides.
MAX_MESSAGE_BYTES = 1_048_588
LARGE = (bytes(range(251)) * 4_200)[: MAX_MESSAGE_BYTES - 100]


def batches(broker: BrokerProcess, topic: str, partition: int = 0) -> list[BatchHeader]:
    """The headers of a partition's batches, as they lie on disk."""
    return [header for _, header in headers(broker.segments(topic, partition))]


def sent(stored: list[Stored]) -> list[Message]:
    """The messages that were consumed, as their producer gave them, without a time."""
    return [replace(each.message, timestamp=None) for each in stored]


@contextmanager
def produced_again_and_again(client: Client, topic: str, message: Message) -> Iterator[None]:
    """While this lasts, `message` is produced one time after the other."""
    enough = Event()

    def produce() -> None:
        while not enough.is_set():
            client.produce(topic, [message])

    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce)
        try:
            yield
        finally:
            enough.set()
        producing.result()


class ClientContract:
    """For every client that produces and consumes. Subclasses give the fixture `client`."""

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_messages_are_consumed_as_produced(
        self, client: Client, broker: BrokerProcess, topic: str, acks: str, codec: str
    ) -> None:
        lacking = client.lacks_codec(codec)
        if lacking is not None:
            pytest.skip(lacking)
        messages = [Message(b"value %d " % i * 20, b"key") for i in range(30)]
        client.produce(topic, messages, acks=acks, compression=codec)
        assert sent(client.consume(topic, 30)) == messages
        assert {batch.codec for batch in batches(broker, topic)} == {Codec[codec.upper()]}

    def test_an_idempotent_producer_numbers_its_batches(
        self, client: Client, broker: BrokerProcess, topic: str
    ) -> None:
        messages = [Message(b"%d" % i) for i in range(50)]
        client.produce(topic, messages, idempotent=True)
        assert sent(client.consume(topic, 50)) == messages
        on_disk = batches(broker, topic)
        assert len({batch.producer_id for batch in on_disk}) == 1
        assert on_disk[0].producer_id >= 0
        assert [batch.base_sequence for batch in on_disk] == [
            batch.base_offset for batch in on_disk
        ]

    def test_thousands_of_messages_in_several_partitions_come_back_in_order(
        self, client: Client, some_admin: Admin, topic: str
    ) -> None:
        some_admin.create_topic(topic, partitions=4)
        by_partition = {
            partition: [
                Message(b"%d of %d" % (number, partition), partition=partition)
                for number in range(1_000)
            ]
            for partition in range(4)
        }
        client.produce(topic, [message for part in by_partition.values() for message in part])
        consumed = client.consume(topic, 4_000, partitions=range(4))
        for partition, messages in by_partition.items():
            mine = [each for each in consumed if each.message.partition == partition]
            assert [each.offset for each in mine] == list(range(1_000))
            assert sent(mine) == messages

    def test_a_message_of_a_megabyte_comes_back(self, client: Client, topic: str) -> None:
        client.produce(topic, [Message(LARGE), Message(b"small"), Message(LARGE[::-1])])
        assert sent(client.consume(topic, 3)) == [
            Message(LARGE),
            Message(b"small"),
            Message(LARGE[::-1]),
        ]

    def test_a_message_above_max_message_bytes_is_rejected(
        self, client: Client, topic: str
    ) -> None:
        client.produce(topic, [Message(b"before")])
        with pytest.raises(Refused) as refusal:
            client.produce(topic, [Message(LARGE + LARGE[:100])])
        assert refusal.value.code == MESSAGE_TOO_LARGE
        client.produce(topic, [Message(b"after")])
        assert sent(client.consume(topic, 2)) == [Message(b"before"), Message(b"after")]

    def test_null_values_stay_null(self, client: Client, topic: str) -> None:
        messages = [Message(b"set", b"k"), Message(None, b"k"), Message(b"set again", b"k")]
        client.produce(topic, messages)
        assert sent(client.consume(topic, 3)) == messages

    def test_headers_keep_order_repetition_and_null(self, client: Client, topic: str) -> None:
        named: tuple[tuple[str, bytes | None], ...] = (
            ("trace", b"1"),
            ("trace", b"2"),
            ("binary", b"\xff\xfe\x80"),
        )
        named += (("nothing", None),) if client.sends_null_headers else ()
        messages = [Message(b"with", headers=named), Message(b"without")]
        client.produce(topic, messages)
        assert sent(client.consume(topic, 2)) == messages

    def test_reading_begins_at_any_offset(self, client: Client, topic: str) -> None:
        client.produce(topic, [Message(b"%d" % i) for i in range(20)])
        assert [each.offset for each in client.consume(topic, 8, start=12)] == list(range(12, 20))

    def test_reading_from_the_end_returns_only_later_messages(
        self, client: Client, topic: str
    ) -> None:
        client.produce(topic, [Message(b"old")] * 3)
        with produced_again_and_again(client, topic, Message(b"new")):
            (first,) = client.consume(topic, 1, start=END)
        assert first.offset >= 3
        assert first.message.value == b"new"

    def test_a_consumer_that_waits_gets_each_message_when_it_is_produced(
        self, client: Client, topic: str
    ) -> None:
        client.produce(topic, [Message(b"first")])
        with (
            client.reading(topic, poll_ms=LONG_POLL_MS) as next_message,
            ThreadPoolExecutor(1) as pool,
        ):
            assert next_message().message.value == b"first"
            for number in range(5):
                waiting = pool.submit(next_message)
                client.produce(topic, [Message(b"%d" % number)])
                assert waiting.result().message.value == b"%d" % number

    def test_a_read_committed_consumer_sees_plain_messages(
        self, client: Client, topic: str
    ) -> None:
        client.produce(topic, [Message(b"%d" % i) for i in range(5)])
        consumed = client.consume(topic, 5, isolation="read_committed")
        assert [each.message.value for each in consumed] == [b"%d" % i for i in range(5)]

    def test_the_broker_recompresses_to_the_topics_codec(
        self, client: Client, some_admin: Admin, broker: BrokerProcess, topic: str
    ) -> None:
        some_admin.create_topic(topic, configs={"compression.type": "gzip"})
        messages = [Message(b"value %d " % i * 20, b"key", (("h", b"v"),)) for i in range(30)]
        client.produce(topic, messages, compression="none")
        assert {batch.codec for batch in batches(broker, topic)} == {Codec.GZIP}
        assert sent(client.consume(topic, 30)) == messages

    def test_a_compacted_topic_rejects_a_message_without_a_key(
        self, client: Client, some_admin: Admin, topic: str
    ) -> None:
        some_admin.create_topic(topic, configs={"cleanup.policy": "compact"})
        with pytest.raises(Refused) as refusal:
            client.produce(topic, [Message(b"no key")])
        # aiokafka calls codes that it does not know unknown errors.
        assert refusal.value.code in (INVALID_RECORD, UNKNOWN_SERVER_ERROR)
        client.produce(topic, [Message(b"value", b"key")])
        assert sent(client.consume(topic, 1)) == [Message(b"value", b"key")]

    def test_log_append_time_is_the_brokers(
        self, client: Client, some_admin: Admin, broker: BrokerProcess, topic: str
    ) -> None:
        some_admin.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
        clock = SystemClock()
        before = clock.now_ms()
        client.produce(topic, [Message(b"a"), Message(b"b")])
        after = clock.now_ms()
        for each in client.consume(topic, 2):
            assert each.message.timestamp is not None
            assert before <= each.message.timestamp <= after
        assert all(batch.log_append_time for batch in batches(broker, topic))

    def test_a_consumer_may_come_before_its_topic(self, client: Client, topic: str) -> None:
        with client.reading(topic) as next_message, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(next_message)
            client.produce(topic, [Message(b"first")])
            assert waiting.result().message.value == b"first"


class LibraryContract(ClientContract):
    """For clients that are libraries: what no command line can say. They tell offsets, too."""

    def test_the_producers_offsets_equal_the_consumers(
        self, client: Client, some_admin: Admin, topic: str
    ) -> None:
        some_admin.create_topic(topic, partitions=2)
        messages = [Message(b"%d" % i, partition=i % 2) for i in range(20)]
        told = client.produce(topic, messages)
        assert told == [i // 2 for i in range(20)]
        consumed = client.consume(topic, 20, partitions=[0, 1])
        assert {(each.message.partition, each.offset, each.message.value) for each in consumed} == {
            (message.partition, offset, message.value)
            for message, offset in zip(messages, told, strict=True)
        }

    def test_empty_values_and_keys_are_not_null(self, client: Client, topic: str) -> None:
        messages = [Message(b"", b""), Message(b"", b"key"), Message(b"value", None)]
        client.produce(topic, messages)
        assert sent(client.consume(topic, 3)) == messages

    def test_any_byte_may_be_in_a_header(self, client: Client, topic: str) -> None:
        named = (("all", bytes(range(256))), ("empty", b""), ("Übermut", b"1"))
        client.produce(topic, [Message(b"v", headers=named)])
        assert sent(client.consume(topic, 1)) == [Message(b"v", headers=named)]

    def test_timestamps_are_the_producers(self, client: Client, topic: str) -> None:
        messages = [
            Message(b"%d" % i, timestamp=1_600_000_000_000 + offset)
            for i, offset in enumerate([500, 0, 90_000, 7])
        ]
        client.produce(topic, messages)
        consumed = client.consume(topic, 4)
        assert [each.message for each in consumed] == messages
        assert not any(each.log_append_time for each in consumed)

    def test_offsets_are_found_by_time(self, client: Client, topic: str) -> None:
        base = 1_600_000_000_000
        for i in range(5):
            client.produce(topic, [Message(b"%d" % i, timestamp=base + 10 * i)])
        assert client.offset_at(topic, base - 1) == 0
        assert client.offset_at(topic, base + 20) == 2
        assert client.offset_at(topic, base + 21) == 3
        assert client.offset_at(topic, base + 41) is None
        start = client.offset_at(topic, base + 21)
        assert start is not None
        assert [each.message.value for each in client.consume(topic, 2, start=start)] == [
            b"3",
            b"4",
        ]

    def test_the_timestamp_type_is_log_append_time(
        self, client: Client, some_admin: Admin, topic: str
    ) -> None:
        some_admin.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
        client.produce(topic, [Message(b"a", timestamp=1_600_000_000_000)])
        (consumed,) = client.consume(topic, 1)
        assert consumed.log_append_time
        assert consumed.message.timestamp != 1_600_000_000_000


class AdminContract:
    """For every client that administers topics. Subclasses give the fixtures."""

    def test_a_topic_is_created_listed_described_and_deleted(
        self, admin: Admin, topic: str
    ) -> None:
        admin.create_topic(topic, partitions=3)
        assert topic in admin.topics()
        assert admin.leaders(topic) == {0: 0, 1: 0, 2: 0}
        admin.delete_topic(topic)
        assert topic not in admin.topics()

    def test_a_deleted_topic_can_be_created_again_and_is_empty(
        self, admin: Admin, client: Client, topic: str
    ) -> None:
        admin.create_topic(topic)
        client.produce(topic, [Message(b"of the first")])
        admin.delete_topic(topic)
        admin.create_topic(topic)
        client.produce(topic, [Message(b"of the second")])
        assert [(each.offset, each.message.value) for each in client.consume(topic, 1)] == [
            (0, b"of the second")
        ]

    def test_invalid_requests_are_rejected_with_their_error_codes(
        self, admin: Admin, topic: str
    ) -> None:
        admin.create_topic(topic)
        refusals: dict[int, Callable[[], None]] = {
            TOPIC_ALREADY_EXISTS: lambda: admin.create_topic(topic),
            INVALID_PARTITIONS: lambda: admin.create_topic(f"{topic}-none", partitions=0),
            INVALID_CONFIG: lambda: admin.create_topic(topic + "-bad", 1, {"retention.ms": "x"}),
            INVALID_TOPIC: lambda: admin.create_topic("not/allowed"),
            UNKNOWN_TOPIC_OR_PARTITION: lambda: admin.delete_topic(f"{topic}-unknown"),
        }
        for code, refused in refusals.items():
            with pytest.raises(Refused) as refusal:
                refused()
            assert refusal.value.code == code

    def test_configs_are_described_and_replaced(self, admin: Admin, topic: str) -> None:
        admin.create_topic(topic, configs={"retention.ms": "1234", "segment.bytes": "1048576"})
        before = admin.configs(topic)
        assert before["retention.ms"] == "1234"
        assert before["segment.bytes"] == "1048576"
        assert before["cleanup.policy"] == "delete"
        admin.replace_configs(topic, {"retention.ms": "5678"})
        after = admin.configs(topic)
        assert after["retention.ms"] == "5678"
        assert after["segment.bytes"] == "1073741824"

    def test_partitions_are_added_but_never_removed(
        self, admin: Admin, client: Client, topic: str
    ) -> None:
        admin.create_topic(topic)
        client.produce(topic, [Message(b"in the first")])
        admin.add_partitions(topic, 3)
        assert sorted(admin.leaders(topic)) == [0, 1, 2]
        client.produce(topic, [Message(b"in the last", partition=2)])
        assert sent(client.consume(topic, 1, partitions=[2])) == [
            Message(b"in the last", partition=2)
        ]
        with pytest.raises(Refused) as refusal:
            admin.add_partitions(topic, 2)
        assert refusal.value.code == INVALID_PARTITIONS

    def test_deleted_records_are_gone_and_their_offsets_are_not_reused(
        self, admin: Admin, client: Client, topic: str
    ) -> None:
        admin.create_topic(topic)
        client.produce(topic, [Message(b"%d" % i) for i in range(10)])
        assert admin.delete_records(topic, before=6) == 6
        assert [each.offset for each in client.consume(topic, 4)] == [6, 7, 8, 9]
        with pytest.raises(Refused) as refusal:
            admin.delete_records(topic, before=11)
        assert refusal.value.code == OFFSET_OUT_OF_RANGE
        assert client.produce(topic, [Message(b"next")]) == [10]
