"""Values framed by a schema registry's clients: Avro, Protobuf and JSON Schema, decoded.

The frame is a zero byte and the id of the schema. Schemas never change under their id, so each is
fetched once. Every method blocks: it runs in a thread.
"""

import base64
import io
import json
import struct
import urllib.error
import urllib.request
from typing import Any, Final

from barnabas.base.errors import BarnabasError
from barnabas.wire.records.records import read_varint

_FRAME: Final = struct.Struct(">bI")
_TIMEOUT_S: Final = 5.0


def _unreadable() -> tuple[type[Exception], ...]:
    from google.protobuf.message import DecodeError

    return (DecodeError, ValueError, LookupError, EOFError, struct.error, TypeError)


class UnknownSchema(BarnabasError):
    """The registry does not have the schema, or the value does not follow it."""


class SchemaRegistry:
    """The schemas of one registry, by id."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._schemas: dict[int, tuple[str, Any]] = {}

    def is_framed(self, data: bytes) -> bool:
        return len(data) > _FRAME.size and data[0] == 0

    def decode(self, data: bytes) -> tuple[str, Any]:
        """The kind of schema, and the value. Raises UnknownSchema."""
        _, schema_id = _FRAME.unpack_from(data)
        kind, schema = self._schema(schema_id)
        body = data[_FRAME.size :]
        try:
            match kind:
                case "AVRO":
                    import fastavro

                    return "Avro", fastavro.schemaless_reader(io.BytesIO(body), schema)
                case "JSON":
                    return "JSON Schema", json.loads(body)
                case _:
                    return "Protobuf", _read_protobuf(schema, body)
        except _unreadable() as failure:
            raise UnknownSchema(f"schema {schema_id}: {failure}") from None

    def _schema(self, schema_id: int) -> tuple[str, Any]:
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._load(schema_id)
        return self._schemas[schema_id]

    def _load(self, schema_id: int) -> tuple[str, Any]:
        found = self._get(f"schemas/ids/{schema_id}")
        kind = str(found.get("schemaType", "AVRO"))
        if kind == "AVRO":
            import fastavro

            return kind, fastavro.parse_schema(json.loads(found["schema"]))
        if kind == "PROTOBUF":
            packed = self._get(f"schemas/ids/{schema_id}?format=serialized")["schema"]
            return kind, _protobuf_messages(base64.b64decode(packed))
        return kind, found["schema"]

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=_TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError, urllib.error.URLError) as failure:
            raise UnknownSchema(f"the schema registry: {failure}") from None


def _protobuf_messages(packed: bytes) -> Any:
    """A file of message types, whose imports are Google's own at most."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    file = descriptor_pb2.FileDescriptorProto.FromString(packed)
    pool = descriptor_pool.DescriptorPool()
    return pool.AddSerializedFile(file.SerializeToString())


def _read_protobuf(file: Any, body: bytes) -> Any:
    from google.protobuf import json_format, message_factory

    count, position = read_varint(body, 0)
    path = []
    for _ in range(count):
        index, position = read_varint(body, position)
        path.append(index)
    types = list(file.message_types_by_name.values())
    found = types[path[0] if path else 0]
    for index in path[1:]:
        found = found.nested_types[index]
    message = message_factory.GetMessageClass(found)()
    message.ParseFromString(body[position:])
    return json_format.MessageToDict(message, preserving_proto_field_name=True)
