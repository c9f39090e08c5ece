"""Values framed with a schema's id, decoded with the schema that a registry serves over HTTP."""

import base64
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from barnabas.console.messages.message_view import show_data
from barnabas.console.messages.schema_registry import SchemaRegistry, UnknownSchema

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
def registry() -> Iterator[SchemaRegistry]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield SchemaRegistry(f"http://127.0.0.1:{server.server_port}/")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def test_avro_json_and_protobuf_are_decoded(registry: SchemaRegistry) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": 7})
    assert registry.decode(framed(1, out.getvalue())) == ("Avro", {"id": 7})
    assert registry.decode(framed(2, b'{"id": 8}')) == ("JSON Schema", {"id": 8})
    pool = descriptor_pool.DescriptorPool()
    file = pool.AddSerializedFile(proto_file().SerializeToString())
    order = message_factory.GetMessageClass(file.message_types_by_name["Order"])(name="Ada")
    packed = framed(3, b"\0" + order.SerializeToString())
    assert registry.decode(packed) == ("Protobuf", {"name": "Ada"})


def test_a_value_whose_schema_is_unknown_is_shown_as_it_is(registry: SchemaRegistry) -> None:
    with pytest.raises(UnknownSchema):
        registry.decode(framed(99, b"x"))
    assert show_data(framed(99, b"x"), "auto", registry).kind == "hex"
    with pytest.raises(UnknownSchema):
        registry.decode(framed(1, b""))
