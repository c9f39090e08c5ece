"""Values framed with a schema's id, decoded with the schema that a registry serves over HTTP."""

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from barnabas.console.messages.message_view import show_data
from barnabas.console.messages.schema_registry import SchemaRegistry, UnknownSchema
from tests.console.conftest import Visitor, running_console
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def proto_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    kind = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="name", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    return file


SCHEMAS: dict[str, Any] = {
    "/schemas/ids/1": {"schema": json.dumps(AVRO)},
    "/schemas/ids/2": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/3": {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
    "/schemas/ids/3?format=serialized": {
        "schema": base64.b64encode(proto_file().SerializeToString()).decode()
    },
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = SCHEMAS.get(self.path)
        body = json.dumps(found or {"error_code": 40403}).encode()
        self.send_response(200 if found else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a registry."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def registry(url: str) -> SchemaRegistry:
    return SchemaRegistry(url)


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def values() -> list[bytes]:
    """An order in Avro, one in JSON, and one in Protobuf."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": 7})
    pool = descriptor_pool.DescriptorPool()
    file = pool.AddSerializedFile(proto_file().SerializeToString())
    order = message_factory.GetMessageClass(file.message_types_by_name["Order"])(name="Ada")
    packed = b"\0" + order.SerializeToString()
    return [framed(1, out.getvalue()), framed(2, b'{"id": 8}'), framed(3, packed)]


def test_avro_json_and_protobuf_are_decoded(registry: SchemaRegistry) -> None:
    assert [registry.decode(value) for value in values()] == [
        ("Avro", {"id": 7}),
        ("JSON Schema", {"id": 8}),
        ("Protobuf", {"name": "Ada"}),
    ]


@pytest.mark.long
def test_a_page_shows_and_filters_decoded_values(
    visit: Callable[..., Visitor], broker: BrokerProcess, topic: str, url: str
) -> None:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values():
        producer.produce(topic, value)
    producer.flush(30)
    with running_console(broker.bootstrap, f"--registry={url}") as console:
        person = visit(at=console)
        page = person.open(f"topics/{topic}/messages?where=oldest", topic)
        page.get_by_text("3 shown, 3 read; done").wait_for()
        for offset, (kind, text) in enumerate(
            [("Avro", '"id": 7'), ("JSON Schema", '"id": 8'), ("Protobuf", '"name": "Ada"')]
        ):
            page.get_by_role("button", name=f"Message 0 {offset}").click()
            details = page.locator(f"#m-0-{offset}")
            details.get_by_text(kind, exact=True).wait_for()
            details.locator("pre", has_text=text).wait_for()
        person.check()
        page.locator("select[name=filter]").select_option("path")
        page.get_by_label("Filter by").fill("$.name = Ada")
        page.get_by_role("button", name="Read").click()
        page.get_by_text("1 shown, 3 read; done").wait_for()


def test_a_value_whose_schema_is_unknown_is_shown_as_it_is(registry: SchemaRegistry) -> None:
    with pytest.raises(UnknownSchema):
        registry.decode(framed(99, b"x"))
    assert show_data(framed(99, b"x"), "auto", registry).kind == "hex"
    with pytest.raises(UnknownSchema):
        registry.decode(framed(1, b""))
