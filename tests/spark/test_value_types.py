"""Types and values that a table must survive: recursive, odd, or of no schema."""

import json
import random
from datetime import time
from functools import reduce
from typing import Any

import pyarrow
import pytest
from google.protobuf import struct_pb2
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.source.avro_values import PlainAvroDecoder, avro_schema
from barnabas.spark.source.json_values import inferred, merged
from barnabas.spark.source.protobuf_values import message_type
from barnabas.spark.source.registry_schemas import avro_type, json_type
from barnabas.spark.source.registry_values import plain
from barnabas.spark.source.value_columns import value_columns
from barnabas.spark.source.value_decoder import DecodedBatches, ValueOptions
from barnabas.spark.source.value_types import Array, Struct
from barnabas.spark.table.table_schema import _differ_by_case, _grown, _known
from barnabas.spark.table_log.table_state import TableDefinition
from barnabas.spark.user_errors import SparkFailure

pa: Any = pyarrow
INFERRED = TableDefinition("t", infer=True)


def kind_of(*values: dict[str, Any]) -> Any:
    return _known(inferred(pa.array([json.dumps(each).encode() for each in values])))


def spark_type(*fields: tuple[str, Any]) -> Any:
    """A struct; a list as a type is a struct of its fields."""
    return from_arrow_type(
        pa.struct(
            [(name, pa.struct(kind) if isinstance(kind, list) else kind) for name, kind in fields]
        )
    )


def test_what_is_known_of_an_array_is_inferred_though_a_field_in_it_is_null() -> None:
    found = kind_of({"items": [{"sku": "x", "discount": None}], "none": [], "empty": {}})
    assert found == pa.struct([("items", pa.list_(pa.struct([("sku", pa.string())])))])
    assert kind_of({"none": None}) is None


def test_a_field_keeps_its_type_and_gets_the_new_fields_within_it() -> None:
    x, y, z, w = ((name, pa.int64()) for name in "xyzw")
    before = spark_type(("a", pa.int64()), ("deep", [x]), ("list", pa.list_(pa.struct([y]))))
    now = spark_type(("a", pa.float64()), ("deep", [z]), ("list", pa.list_(pa.struct([w]))))
    assert _grown(before, now, INFERRED) == spark_type(
        ("a", pa.int64()), ("deep", [x, z]), ("list", pa.list_(pa.struct([y, w])))
    )
    with pytest.raises(CommandFailed, match="field a of t is bigint in the table and double now"):
        _grown(before, now, TableDefinition("t"))
    assert not _differ_by_case(before)
    assert _differ_by_case(spark_type(("list", pa.list_(pa.struct([x, ("X", pa.int64())])))))


def test_no_two_fields_have_one_column() -> None:
    fields = ["key", "value_key", "id", "ID", "", "_metadata", "day"]
    assert value_columns(fields, ["day"]) == {
        "key": "value_key", "value_key": "value_value_key", "id": "id", "ID": "value_ID",
        "": "value_", "_metadata": "value__metadata", "day": "value_day",
    }  # fmt: skip


NODE = {"name": "next", "type": ["null", "node"]}


def test_a_type_that_contains_itself_is_refused_in_one_sentence() -> None:
    with pytest.raises(SparkFailure, match="record node contains itself"):
        avro_type({"type": "record", "name": "node", "fields": [NODE]}, {})
    with pytest.raises(SparkFailure, match=r"message google\.protobuf\.Struct contains itself"):
        message_type(struct_pb2.Struct.DESCRIPTOR)
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}}}
    with pytest.raises(SparkFailure, match="definition # contains itself"):
        json_type(tree)


def test_named_types_and_definitions_are_used_more_than_once() -> None:
    inner = {"type": "record", "name": "point", "namespace": "n", "fields": [
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
    ]}  # fmt: skip
    fields = [{"name": "one", "type": inner}, {"name": "other", "type": "n.point"}]
    point = Struct({"at": "STRING"})
    found = avro_type({"type": "record", "name": "line", "fields": fields}, {})
    assert found == Struct({"one": point, "other": point})

    item = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema: dict[str, Any] = {
        "properties": {"a": {"$ref": "#/$defs/an~1item"}, "b": {"items": {"$ref": "#/$defs/no"}}},
        "$defs": {"an/item": item},
    }
    schema["properties"]["b"]["type"] = "array"
    assert json_type(schema) == Struct({"a": Struct({"x": "BIGINT"}), "b": Array("STRING")})


def test_bytes_that_are_no_avro_are_bad_values_and_never_an_error() -> None:
    kinds = [LongType(), DoubleType(), StringType(), TimestampType(), DateType(),
             DecimalType(10, 2), ArrayType(StringType()), BooleanType()]  # fmt: skip
    struct = StructType([StructField(f"f{n}", kind) for n, kind in enumerate(kinds)])
    decoder, chosen = PlainAvroDecoder(struct), random.Random(24)
    assert avro_schema(struct)["type"] == "record"
    # The first is a date of Python that does not exist.
    values = [bytes([0] * 4 + [2] + [0xFE] * 4 + [0x0F, 0, 0, 0])]
    values += [b"\x02" + chosen.randbytes(chosen.randrange(60)) for _ in range(2000)]
    array, bad = decoder.decode(pa.array(values, pa.binary()))
    assert len(array) == len(values)
    assert 0 in bad
    assert str(plain({"at": time(1, 2)})["at"]) == "01:02:00"


def test_the_reason_of_a_large_value_is_short() -> None:
    """It goes into a header of the dead letter, which must not be larger than a record may be."""
    options = ValueOptions.of({"value.format": "json", "value.schema": "d", "value.errors": "keep"})
    assert options is not None
    struct = StructType([StructField("d", DateType())])
    kinds = {"offset": pa.int64(), "value": pa.struct([("d", pa.date32())]),
             "rawValue": pa.binary(), "valueError": pa.string()}  # fmt: skip
    value = json.dumps({"d": "x" * 100_000}).encode()
    batch = pa.record_batch({"offset": [0], "value": pa.array([value], pa.binary())})
    [row] = DecodedBatches(options, pa.schema(kinds), struct).decoded(batch).to_pylist()
    assert row["rawValue"] == value
    assert row["valueError"].startswith("the value does not fit the schema: Failed to parse")
    assert len(row["valueError"]) < 1000


def test_many_values_have_the_type_that_they_have_one_by_one() -> None:
    whole = {"n": 1, "t": "2026-11-18", "deep": {"x": [1.5], "e": {}}, "list": [{"a": 1}], "no": []}
    chosen, texts = (
        random.Random(24),
        [b"5", b"{", b"", b"[]", b"null", b'{"n": 1180591620717411303}'],
    )
    for _ in range(200):
        some = {name: each for name, each in whole.items() if chosen.random() < 0.7}
        texts.append(json.dumps({**some, "f": chosen.choice([1, 2.5])}).encode())
    chosen.shuffle(texts)
    together = inferred(pa.array(texts, pa.binary()))
    alone = reduce(merged, (inferred(pa.array([text], pa.binary())) for text in texts))
    assert {field.name: field.type for field in together} == {
        field.name: field.type for field in alone
    }
    assert together.field("t").type == pa.string()
    # Beyond BIGINT, but no fraction: that would lose digits of all others.
    large = [b'{"n": 1}'] * 20 + [b'{"n": 11805916207174113034240}']
    assert inferred(pa.array(large, pa.binary())).field("n").type == pa.int64()
