"""The registry with confluent-kafka's own clients, over a real broker."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from barnabas.cli.registry.compatibility import incompatibilities
from barnabas.cli.registry.registry_state import Schema as Registered
from tests.support.broker import BrokerProcess
from tests.support.registry import serving


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "order", "fields": list(fields)})


ID = {"name": "id", "type": "long"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
BARE = {"name": "bare", "type": "string"}


@pytest.fixture
def clients() -> Iterator[Callable[[str], SchemaRegistryClient]]:
    """Confluent's clients by URL, closed at the end."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(SchemaRegistryClient({"url": url}))


Clients = Callable[[str], SchemaRegistryClient]


@pytest.fixture
def url(broker: BrokerProcess) -> Iterator[str]:
    with serving(broker.bootstrap) as found:
        yield found


def test_confluents_serializer_registers_and_its_deserializer_reads(
    url: str, clients: Clients, topic: str
) -> None:
    client = clients(url)
    at = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(client, record(ID, NAME))({"id": 7, "name": "a"}, at)
    assert data is not None
    assert AvroDeserializer(clients(url))(data, at) == {"id": 7, "name": "a"}
    assert f"{topic}-value" in client.get_subjects()
    assert client.get_latest_version(f"{topic}-value").version == 1


def test_a_registry_that_starts_again_has_all_of_the_topic(
    url: str, clients: Clients, broker: BrokerProcess, topic: str
) -> None:
    client = clients(url)
    first = client.register_schema(topic, Schema(record(ID)))
    client.set_compatibility(topic, "NONE")
    second = client.register_schema(topic, Schema(json.dumps({"type": "object"}), "JSON"))
    with serving(broker.bootstrap) as other:
        again = clients(other)
        assert again.get_versions(topic) == [1, 2]
        assert again.get_schema(first).schema_str == record(ID)
        assert again.get_compatibility(topic) == "NONE"
        assert again.register_schema(topic, Schema(record(ID))) == first
        assert again.delete_subject(topic) == [1, 2]
    with pytest.raises(SchemaRegistryError, match="not found"):
        client.get_versions(topic)
    assert second > first


def test_the_id_of_a_schema_that_is_gone_is_not_given_again(
    url: str, clients: Clients, broker: BrokerProcess, topic: str
) -> None:
    """Values in topics still begin with it."""
    client, mine = clients(url), {**ID, "doc": topic}
    gone = client.register_schema(topic, Schema(record(mine)))
    for permanent in (False, True):
        client.delete_subject(topic, permanent)
    with serving(broker.bootstrap) as other:
        assert clients(other).register_schema(topic, Schema(record(mine, NAME))) > gone


def test_the_text_of_a_schema_is_served_by_itself(url: str, clients: Clients, topic: str) -> None:
    number = clients(url).register_schema(topic, Schema(record(ID)))
    with urlopen(f"{url}/schemas/ids/{number}/schema") as response:
        assert json.load(response) == json.loads(record(ID))
    proto = Registered(base64.b64encode(b"\n\x01a").decode(), "PROTOBUF")
    assert proto.plain == proto.text


def test_an_incompatible_or_invalid_schema_is_refused(
    url: str, clients: Clients, topic: str
) -> None:
    client = clients(url)
    client.register_schema(topic, Schema(record(ID)))
    assert client.test_compatibility(topic, Schema(record(ID, NAME)))
    with pytest.raises(SchemaRegistryError, match="incompatible") as refused:
        client.register_schema(topic, Schema(record(ID, BARE)))
    assert refused.value.http_status_code == 409
    with pytest.raises(SchemaRegistryError, match="Invalid schema"):
        client.register_schema(f"{topic}-other", Schema('{"type": "nothing"}'))
    with pytest.raises(SchemaRegistryError, match="Schema 999999 not found"):
        client.get_schema(999999)


@pytest.mark.parametrize(
    ("old", "new", "level", "fits"),
    [
        (record(ID), record(ID, NAME), "FULL", True),
        (record(ID), record(ID, BARE), "BACKWARD", False),
        (record(ID), record(ID, BARE), "FORWARD", True),
        (record(ID, BARE), record(ID), "BACKWARD", True),
        (record(ID, BARE), record(ID), "FORWARD", False),
        (record({"name": "id", "type": "int"}), record(ID), "BACKWARD", True),
        (record(ID), record({"name": "id", "type": "int"}), "BACKWARD", False),
        (record(ID), record({"name": "id", "type": "string"}), "NONE", True),
    ],
)
def test_levels_decide_by_avros_schema_resolution(
    old: str, new: str, level: str, fits: bool
) -> None:
    assert bool(incompatibilities(Registered(new), [Registered(old)], level)) is not fits


def test_json_schemas_and_transitive_levels() -> None:
    def made(**properties: str) -> Registered:
        kinds = {name: {"type": kind} for name, kind in properties.items()}
        return Registered(json.dumps({"type": "object", "properties": kinds}), "JSON")

    first, second = made(a="string"), made(b="integer")
    third = made(a="integer", b="number")
    assert not incompatibilities(third, [first, second], "BACKWARD")
    assert incompatibilities(third, [first, second], "BACKWARD_TRANSITIVE")
