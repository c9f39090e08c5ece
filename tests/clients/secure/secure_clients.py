"""Each client with a login: it creates a topic, produces, and consumes in a group."""

import asyncio
import gc
import logging
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, Protocol

import aiokafka.admin
import aiokafka.errors
import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, KafkaException, Producer

from tests.support import kafka_python_client
from tests.support.clients import PATIENCE_S
from tests.support.confluent_client import admin
from tests.support.kcat_client import ABSENT, KCAT
from tests.support.logins import Login, confluent, librdkafka, python
from tests.support.waiting import until

_PATIENCE_MS: Final = int(1000 * PATIENCE_S)
kafka: Any = kafka_python_client.library
untyped: Any = aiokafka


class SecureClient(Protocol):
    """A client under test."""

    def round_trip(self, login: Login, topic: str) -> bytes | None:
        """Create the topic, produce, and return the value that a group consumes."""

    def is_refused(self, login: Login) -> bool:
        """True if the client reports that it could not log in."""


class Librdkafka:
    def round_trip(self, login: Login, topic: str) -> bytes | None:
        settings = confluent(login)
        client = admin.AdminClient(settings)
        created = client.create_topics([admin.NewTopic(topic, 1, 1)])
        created[topic].result(PATIENCE_S)
        producer = Producer(settings)
        producer.produce(topic, b"hello")
        assert producer.flush(PATIENCE_S) == 0
        reading = {"group.id": topic, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, **reading})
        try:
            consumer.subscribe([topic])
            message = consumer.poll(PATIENCE_S)
            return message.value() if message is not None else None
        finally:
            consumer.close()

    def is_refused(self, login: Login) -> bool:
        names: set[str] = set()

        def callback(error: Any) -> None:
            names.add(error.name())

        client = admin.AdminClient(confluent(login) | {"error_cb": callback})
        refusals = {"_AUTHENTICATION", "_SSL"}
        until(lambda: client.poll(0.05) or names & refusals, lambda: f"a refusal: {names}")
        with pytest.raises(KafkaException):
            client.list_topics(timeout=0.01)
        return True


class _KafkaPythonToken(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]  # untyped
    def __init__(self, login: Login) -> None:
        super().__init__()
        self._login = login

    def token(self) -> str:
        return self._login.bearer_token()


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Without log records: pytest would keep those of a test, and the objects of their errors."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _collected() -> Iterator[None]:
    """Sockets are collected where a client leaves them: one whose handshake failed, or one of TLS
    that it began to close.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


class KafkaPython:
    def round_trip(self, login: Login, topic: str) -> bytes | None:
        settings = python(login, _KafkaPythonToken)
        with closing(kafka.admin.KafkaAdminClient(**settings)) as client:
            client.create_topics([kafka.admin.NewTopic(topic, 1, 1)])
        with closing(kafka.KafkaProducer(**settings)) as producer:
            producer.send(topic, b"hello").get(PATIENCE_S)
        reading = {
            "group_id": topic,
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": _PATIENCE_MS,
        }
        with closing(kafka.KafkaConsumer(topic, **settings, **reading)) as consumer:
            value: bytes | None = next(consumer).value
        return value

    def is_refused(self, login: Login) -> bool:
        settings = python(login, _KafkaPythonToken)
        with _collected(), _silent("kafka"), pytest.raises(kafka.errors.KafkaError):
            kafka.KafkaProducer(**settings, bootstrap_timeout_ms=500).close()
        return True


class _AiokafkaToken(AbstractTokenProvider):
    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return self._login.bearer_token()


class Aiokafka:
    def round_trip(self, login: Login, topic: str) -> bytes | None:
        async def run() -> bytes | None:
            settings = python(login, _AiokafkaToken)
            client = untyped.admin.AIOKafkaAdminClient(**settings)
            await client.start()
            await client.create_topics([untyped.admin.NewTopic(topic, 1, 1)])
            await client.close()
            async with untyped.AIOKafkaProducer(**settings) as producer:
                await producer.send_and_wait(topic, b"hello")
            reading = {"group_id": topic, "auto_offset_reset": "earliest"}
            async with untyped.AIOKafkaConsumer(topic, **settings, **reading) as consumer:
                value: bytes | None = (await consumer.getone()).value
            return value

        with _collected():
            return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))

    def is_refused(self, login: Login) -> bool:
        async def run() -> None:
            producer = untyped.AIOKafkaProducer(**python(login, _AiokafkaToken))
            try:
                await producer.start()
            finally:
                await producer.stop()

        with _collected(), pytest.raises(aiokafka.errors.KafkaError):
            asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
        return True


class Kcat:
    def round_trip(self, login: Login, topic: str) -> bytes | None:
        _kcat(login, "-P", "-t", topic, stdin=b"hello")  # kcat creates topics in this way only
        assert topic in _kcat(login, "-L").decode()
        earliest = ("-X", "auto.offset.reset=earliest")
        return _kcat(login, "-G", topic, *earliest, "-c", "1", "-q", topic).rstrip(b"\n")

    def is_refused(self, login: Login) -> bool:
        with pytest.raises(subprocess.CalledProcessError) as failed:
            _kcat(login, "-L", "-m", "2")
        output = failed.value.stderr
        return b"SSL" in output or b"uthentication" in output


def _kcat(login: Login, *arguments: str, stdin: bytes = b"") -> bytes:
    if KCAT is None:
        pytest.skip(ABSENT)
    settings = [f"-X{key}={value}" for key, value in librdkafka(login).items()]
    command = [KCAT, *settings, *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, check=True, timeout=PATIENCE_S
    ).stdout


CLIENTS: Final[Mapping[str, Callable[[], SecureClient]]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "kcat": Kcat,
}
