"""librdkafka without a Python object per message, so that the client is seldom the limit.

It calls the public C API of the library in the confluent_kafka package, as a C program would.
"""

import ctypes
import random
import time
from collections.abc import Mapping, Sequence
from ctypes import CDLL, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, cimpl

_PRODUCER, _CONSUMER = 0, 1
_UNKNOWN: Final = -1001  # the position in a partition of which nothing was read
_ERROR_CHARACTERS: Final = 512
_LISTENS_EVERY_MS: Final = 500  # to signals: Python sees none while the library waits


class _Message(Structure):
    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_bytes", c_size_t),
        ("key", c_void_p),
        ("key_bytes", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class _Partition(Structure):
    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_bytes", c_size_t),
        ("opaque", c_void_p),
        ("error", c_int),
        ("private", c_void_p),
    )


class _Partitions(Structure):
    _fields_ = (("count", c_int), ("room", c_int), ("each", POINTER(_Partition)))


class Values:
    """Messages that are produced together, repeatedly.

    Half of each is unique noise, so that a codec halves them.
    """

    def __init__(self, count: int, record_bytes: int) -> None:
        noise = random.Random(record_bytes)
        half = record_bytes // 2
        each = (noise.randbytes(half) + b"v" * (record_bytes - half) for _ in range(count))
        self._held = ctypes.create_string_buffer(b"".join(each), count * record_bytes)
        self.count = count
        self.messages = (_Message * count)()
        for number, message in enumerate(self.messages):
            message.value = ctypes.addressof(self._held) + number * record_bytes
            message.value_bytes = record_bytes


class LeanProducer:
    """A producer for one topic. It does not report failures: check the log end offset."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._library = _library()
        self._client = _client(_PRODUCER, settings)
        self._topic = c_void_p(self._library.rd_kafka_topic_new(self._client, topic.encode(), None))
        if not self._topic:
            raise ValueError(f"no topic can be called {topic!r}")

    def connect(self, timeout_s: float) -> None:
        """Fetch the topic's metadata, so that the first message finds a connection."""
        found = c_void_p()
        milliseconds = int(1e3 * timeout_s)
        _check(
            self._library.rd_kafka_metadata(
                self._client, 0, self._topic, ctypes.byref(found), milliseconds
            )
        )
        self._library.rd_kafka_metadata_destroy(found)

    def hand_over(self, partition: int, values: Values, first: int = 0) -> int:
        """Queue messages from `first` on; return how many were accepted. They must stay valid
        until `flush`."""
        rest = ctypes.byref(values.messages, first * ctypes.sizeof(_Message))
        count = values.count - first
        taken = self._library.rd_kafka_produce_batch(self._topic, partition, 0, rest, count)
        if not taken and (error := values.messages[first].error) != KafkaError._QUEUE_FULL:
            _check(error)
        self._library.rd_kafka_poll(self._client, 0 if taken == count else 1)
        return int(taken)

    def init_transactions(self, within_s: float) -> None:
        """Get the producer id and epoch of its `transactional.id`. Raises KafkaException."""
        _check_step(self._library.rd_kafka_init_transactions(self._client, int(1e3 * within_s)))

    def begin_transaction(self) -> None:
        _check_step(self._library.rd_kafka_begin_transaction(self._client))

    def commit_transaction(self, within_s: float) -> None:
        """Flush and commit. Raises KafkaException, also if a message was not acknowledged."""
        _check_step(self._library.rd_kafka_commit_transaction(self._client, int(1e3 * within_s)))

    def flush(self, within_s: float) -> int:
        """Wait for acknowledgements; return the number of messages still unacknowledged."""
        deadline = time.perf_counter() + within_s
        while left := int(self._library.rd_kafka_outq_len(self._client)):
            if time.perf_counter() > deadline:
                break
            self._library.rd_kafka_flush(self._client, 1)  # in steps of 10 ms if it had the time
        return left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_topic_destroy(self._topic)
        self._library.rd_kafka_destroy(self._client)


class LeanConsumer:
    """A consumer of partitions of one topic from their start, which ignores the messages."""

    def __init__(self, settings: Mapping[str, Any], topic: str, partitions: Sequence[int]) -> None:
        self._library = _library()
        self._client = _client(_CONSUMER, settings)
        self._queue = c_void_p(self._library.rd_kafka_queue_get_consumer(self._client))
        self._assigned = self._library.rd_kafka_topic_partition_list_new(len(partitions))
        for number in partitions:
            add = self._library.rd_kafka_topic_partition_list_add
            add(self._assigned, topic.encode(), number).contents.offset = 0
        _check(self._library.rd_kafka_assign(self._client, self._assigned))

    def pass_over(self, wanted: int, within_s: float) -> int:
        """Read until this many messages arrived or the time is up; return their number.

        The library calls a function for each message and frees the message. The function passed
        here takes no argument and only returns the thread's last error.
        """
        ignore = self._library.rd_kafka_last_error
        deadline = time.perf_counter() + within_s
        told = 0  # with errors and other events, of which there are few
        while told < wanted or self._passed() < wanted:
            told += self._library.rd_kafka_consume_callback_queue(
                self._queue, _LISTENS_EVERY_MS, ignore, None
            )
            if time.perf_counter() > deadline:
                break
        return self._passed()

    def _passed(self) -> int:
        """The number of messages before the current positions."""
        _check(self._library.rd_kafka_position(self._client, self._assigned))
        listed = self._assigned.contents
        offsets = (listed.each[number].offset for number in range(listed.count))
        return sum(offset for offset in offsets if offset != _UNKNOWN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_topic_partition_list_destroy(self._assigned)
        self._library.rd_kafka_queue_destroy(self._queue)
        self._library.rd_kafka_consumer_close(self._client)
        self._library.rd_kafka_destroy(self._client)


def _client(kind: int, settings: Mapping[str, Any]) -> c_void_p:
    library, said = _library(), ctypes.create_string_buffer(_ERROR_CHARACTERS)
    configuration = c_void_p(library.rd_kafka_conf_new())
    if "transactional.id" in settings:
        # Without a callback for acknowledged messages a commit looks for them every 10 ms only.
        library.rd_kafka_conf_set_dr_msg_cb(configuration, library.rd_kafka_last_error)
    for key, value in settings.items():
        written = str(value).lower() if isinstance(value, bool) else str(value)
        if library.rd_kafka_conf_set(
            configuration, key.encode(), written.encode(), said, c_size_t(len(said))
        ):
            raise ValueError(said.value.decode())
    client = library.rd_kafka_new(kind, configuration, said, c_size_t(len(said)))
    if not client:
        raise ValueError(said.value.decode())
    return c_void_p(client)


def _check(error: int) -> None:
    if error:
        raise KafkaException(KafkaError(error))


def _check_step(error: int | None) -> None:
    """Raises KafkaException for the error of a transaction's step, which is freed."""
    if error is not None:
        library, held = _library(), c_void_p(error)
        code = library.rd_kafka_error_code(held)
        library.rd_kafka_error_destroy(held)
        _check(code)


@cache
def _library() -> CDLL:
    """The library, found through the module that is linked with it."""
    library = CDLL(cimpl.__file__)
    steps = ("init_transactions", "begin_transaction", "commit_transaction")
    for name in ("conf_new", "new", "topic_new", "queue_get_consumer", *steps):
        getattr(library, f"rd_kafka_{name}").restype = c_void_p
    library.rd_kafka_topic_partition_list_new.restype = POINTER(_Partitions)
    library.rd_kafka_topic_partition_list_add.restype = POINTER(_Partition)
    return library
