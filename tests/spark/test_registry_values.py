"""Values of a schema registry in Spark: confluent-kafka's serializers write, Spark reads."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.json_format import MessageToDict
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from barnabas.spark.sink.protobuf_messages import MessageWriter, protobuf_schema
from barnabas.spark.source.protobuf_values import read_message, root_message
from barnabas.spark.source.registry_client import RegisteredSchema
from barnabas.spark.user_errors import WrongOption
from tests.spark.conftest import Fill, create_topic, produce
from tests.spark.test_table_run import Table, rows, summary, table
from tests.support.broker import BrokerProcess
from tests.support.registry import serving

__all__ = ["table"]

Read = Callable[..., DataFrame]
OLD = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
]}  # fmt: skip


@pytest.fixture
def registry(served: BrokerProcess) -> Iterator[str]:
    with serving(served.bootstrap) as url:
        yield url


@pytest.fixture
def client(registry: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry}) as made:
        yield made


def value(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_of_several_versions_is_read_and_is_a_table_that_grows(
    registry: str, client: SchemaRegistryClient, fill: Fill, read: Read, table: Table,
    served: BrokerProcess, topic: str, tmp_path: Any,
) -> None:  # fmt: skip
    old = AvroSerializer(client, json.dumps(OLD))({"id": 1}, value(topic))
    fill([{"value": old}, {"value": b"no avro"}, {"value": b"\0\0\0\x03\xe7of no schema"}])
    options = ("--schema-from", "registry", "--registry", registry, "--value-format", "avro")
    assert summary(table("delta", *options))["deadLetters"] == 2
    new = AvroSerializer(client, json.dumps(NEW))({"id": 2, "name": "b"}, value(topic))
    produce(served.bootstrap, topic, [{"value": new}])
    assert summary(table("delta", *options))["rows"] == 2
    assert [(row["id"], row["name"]) for row in rows("delta", tmp_path / "table")] == [
        (1, None), (2, "b"),
    ]  # fmt: skip

    decode = {"value.format": "avro", "schema.registry.url": registry, "value.errors": "null"}
    found = read(**decode).orderBy("offset").select("value.*").collect()
    assert [(row.id, row.name) for row in found] == [
        (1, None), (None, None), (None, None), (2, "b"),
    ]  # fmt: skip


def order_message() -> Any:
    """The class of a message with a name, an id and a timestamp."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=1)
    message.field.add(name="tags", number=2, type=kinds.TYPE_STRING, label=3)
    at = ".google.protobuf.Timestamp"
    message.field.add(name="at", number=3, type=kinds.TYPE_MESSAGE, type_name=at, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_json_schema_and_protobuf_are_read(
    registry: str, client: SchemaRegistryClient, fill: Fill, read: Read, served: BrokerProcess,
    topic: str,
) -> None:  # fmt: skip
    schema = {"title": "o", "type": "object", "properties": {"id": {"type": "integer"}}}
    fill([{"value": JSONSerializer(json.dumps(schema), client)({"id": 5}, value(topic))}])
    decode = {"value.format": "json", "schema.registry.url": registry}
    assert [row.id for row in read(**decode).select("value.id").collect()] == [5]

    order, other = order_message(), f"{topic}-protobuf"
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    made = order(id=7, tags=["a", "b"])
    made.at.seconds = 5
    create_topic(served.bootstrap, other)
    produce(served.bootstrap, other, [{"value": serializer(made, value(other))}])
    decode = {"value.format": "protobuf", "schema.registry.url": registry}
    [row] = read(subscribe=other, **decode).select("value.*").collect()
    assert (row.id, row.tags, row["at"].timestamp()) == (7, ["a", "b"], 5.0)


def confluent(format: str, client: SchemaRegistryClient, topic: str, raw: bytes) -> Any:
    """The value, by confluent-kafka's own deserializer."""
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    assert text is not None
    if format == "avro":
        return AvroDeserializer(client)(raw, value(topic))
    if format == "json":
        return JSONDeserializer(text, schema_registry_client=client)(raw, value(topic))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(base64.b64decode(text))
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("barnabas.Value"))
    found = ProtobufDeserializer(made, {"use.deprecated.format": False})(raw, value(topic))
    return MessageToDict(found, preserving_proto_field_name=True)


@pytest.mark.parametrize("format", ["avro", "json", "protobuf"])
def test_rows_are_written_with_a_registered_schema_and_confluents_deserializers_read_them(
    format: str, spark: SparkSession, registry: str, client: SchemaRegistryClient, fill: Fill,
    read: Read, served: BrokerProcess, topic: str,
) -> None:  # fmt: skip
    fill()
    options = {"value.format": format, "schema.registry.url": registry}
    made = "SELECT struct(7 AS id, 'a' AS name, array(1.5D) AS list, struct(2 AS x) AS deep) value"
    spark.sql(made).write.format("barnabas").options(
        **options, topic=topic, **{"kafka.bootstrap.servers": served.bootstrap}
    ).mode("append").save()
    [row] = read(**options).select("value.*").collect()
    assert (row.id, row.name, row.list, row.deep.x) == (7, "a", [1.5], 2)
    assert client.get_latest_version(f"{topic}-value").version == 1
    raw = bytes(read().collect()[0].value)
    found = confluent(format, client, topic, raw)
    assert found == {"id": 7, "name": "a", "list": [1.5], "deep": {"x": 2}}


def test_protobuf_messages_keep_nulls_times_and_maps() -> None:
    kind = (
        StructType()
        .add("at", TimestampType())
        .add("day", DateType())
        .add("price", DecimalType(10, 2))
        .add("by_name", MapType(StringType(), LongType()))
        .add("none", StringType())
    )
    text = protobuf_schema(kind, "t-value")
    schema = RegisteredSchema("PROTOBUF", text)
    at = datetime(2026, 1, 31, tzinfo=UTC)
    given = {"at": at, "day": at.date(), "price": Decimal("1.50"), "by_name": [("a", 1)]}
    payload = MessageWriter(root_message(schema, [0])).payload({**given, "none": None})
    assert read_message(payload, schema) == {
        **given, "day": "2026-01-31", "price": "1.50", "none": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (StructType().add("a b", StringType()), "letters, digits and _ only"),
        (StructType().add("a", ArrayType(ArrayType(LongType()))), "no type for array<array<big"),
    ],
)
def test_what_no_protobuf_message_can_have_is_refused(kind: StructType, says: str) -> None:
    with pytest.raises(WrongOption, match=says):
        protobuf_schema(kind, "t-value")
