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

from barnabas.base.clock import Clock, SystemClock
from barnabas.base.errors import BarnabasError
from barnabas.wire.records.records import read_varint

_FRAME: Final = struct.Struct(">bI")
_TIMEOUT_S: Final = 5.0
_AGAIN_MS: Final = 30_000
_MOST_MISSING: Final = 10_000


def _unreadable() -> tuple[type[Exception], ...]:
    from google.protobuf.message import DecodeError

    return (
        DecodeError,
        ValueError,
        LookupError,
        EOFError,
        struct.error,
        TypeError,
        RecursionError,
    )


class UnknownSchema(BarnabasError):
    """The registry does not have the schema, or the value does not follow it."""


_NOT_LOADED: Final = (UnknownSchema, LookupError, TypeError, ValueError)


class SchemaRegistry:
    """The schemas of one registry, by id."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._url = url.rstrip("/")
        self._clock = clock or SystemClock()
        self._schemas: dict[int, tuple[str, Any]] = {}
        # Ids that could not be had, why, and until when the registry is not asked for them again:
        # any bytes that begin with a zero look like a frame.
        self._missing: dict[int, tuple[int, str]] = {}
        self._silent_until_ms = 0

    def is_framed(self, data: bytes) -> bool:
        return len(data) > _FRAME.size and data[0] == 0

    def decode(self, data: bytes) -> tuple[str, Any]:
        """The kind of schema, and the value. Raises UnknownSchema."""
        _, schema_id = _FRAME.unpack_from(data)
        body = data[_FRAME.size :]
        try:
            kind, schema = self._schema(schema_id)
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
            now_ms = self._clock.now_ms()
            until_ms, why = self._missing.get(schema_id, (self._silent_until_ms, "no answer"))
            if now_ms < until_ms:
                raise UnknownSchema(f"the schema registry: {why}")
            try:
                self._schemas[schema_id] = self._load(schema_id)
            except _NOT_LOADED as failure:
                if len(self._missing) >= _MOST_MISSING:
                    self._missing.clear()
                self._missing[schema_id] = now_ms + _AGAIN_MS, str(failure)
                raise
        return self._schemas[schema_id]

    def _load(self, schema_id: int) -> tuple[str, Any]:
        found = self._get(f"schemas/ids/{schema_id}")
        kind = str(found.get("schemaType", "AVRO"))
        if kind == "AVRO":
            import fastavro

            try:
                return kind, fastavro.parse_schema(json.loads(found["schema"]))
            except fastavro.schema.SchemaParseException as failure:
                raise UnknownSchema(f"schema {schema_id}: {failure}") from None
        if kind == "PROTOBUF":
            packed = self._get(f"schemas/ids/{schema_id}?format=serialized")["schema"]
            return kind, _protobuf_messages(base64.b64decode(packed))
        return kind, found["schema"]

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=_TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError) as failure:
            if not isinstance(failure, urllib.error.HTTPError):
                self._silent_until_ms = self._clock.now_ms() + _AGAIN_MS
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
