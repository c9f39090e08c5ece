"""Every client reads what every other client wrote."""

from dataclasses import replace

import pytest

from tests.support.aiokafka_client import AiokafkaClient
from tests.support.broker import BrokerProcess
from tests.support.clients import CODECS, Client, Message
from tests.support.confluent_client import ConfluentClient
from tests.support.kafka_python_client import KafkaPythonClient
from tests.support.kcat_client import ABSENT, KCAT, KcatClient

CLIENTS = [
    ConfluentClient,
    KafkaPythonClient,
    AiokafkaClient,
    pytest.param(KcatClient, marks=pytest.mark.skipif(KCAT is None, reason=ABSENT)),
]

BASE_MS = 1_600_000_000_000


def messages_for(writer: Client, codec: str) -> list[Message]:
    """Some of everything that the writer can say."""
    headers: tuple[tuple[str, bytes | None], ...] = (
        ("codec", codec.encode()),
        ("twice", b"1"),
        ("twice", b"2"),
        ("binary", b"\x80\xfe\xff"),
    )
    if writer.sends_null_headers:
        headers += (("null", None),)
    messages = [
        Message(b"plain " * 50),
        Message(b"with a key", b"\x00\xffkey"),
        Message(None, b"tombstone"),
        Message(b"with headers", b"key", headers),
        Message("Grüße, 世界".encode(), "ключ".encode()),
    ]
    if isinstance(writer, KcatClient):
        return messages
    return [
        replace(message, timestamp=BASE_MS + 1_000 * number)
        for number, message in enumerate([*messages, Message(b"", b"")])
    ]


@pytest.mark.parametrize("reads", CLIENTS)
@pytest.mark.parametrize("writes", CLIENTS)
def test_what_one_client_writes_another_reads_identically(
    broker: BrokerProcess, topic: str, writes: type[Client], reads: type[Client]
) -> None:
    writer, reader = writes(broker.bootstrap), reads(broker.bootstrap)
    shared = [
        codec for codec in CODECS if not (writer.lacks_codec(codec) or reader.lacks_codec(codec))
    ]
    written = []
    for codec in shared:
        messages = messages_for(writer, codec)
        writer.produce(topic, messages, compression=codec)
        written += messages
    consumed = reader.consume(topic, len(written))
    assert [each.offset for each in consumed] == list(range(len(written)))
    for each, message in zip(consumed, written, strict=True):
        timestamp = message.timestamp or each.message.timestamp
        assert each.message == replace(message, timestamp=timestamp)


def test_every_client_gets_the_same_timestamps(broker: BrokerProcess, topic: str) -> None:
    at = broker.bootstrap
    clients: list[Client] = [ConfluentClient(at), KafkaPythonClient(at), AiokafkaClient(at)]
    if KCAT is not None:
        clients.append(KcatClient(at))
    for client in clients:
        client.produce(topic, [Message(b"of now")])
    first, *others = [
        [each.message for each in client.consume(topic, len(clients))] for client in clients
    ]
    assert others == [first] * len(others)
