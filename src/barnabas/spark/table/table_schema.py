"""The schema of a table's values: given, inferred or registered, and it only ever grows."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.archive.archive_run import read_ranges
from barnabas.spark.archive.archive_source import PartitionRange
from barnabas.spark.source.value_columns import DAY_COLUMN, value_columns
from barnabas.spark.spark_errors import explain, spark_errors
from barnabas.spark.table.table_rows import COMMITTED
from barnabas.spark.table_log.table_log import TableSnapshot
from barnabas.spark.table_log.table_state import TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from barnabas.spark.table.table_run import TableSpec


def merged_schema(
    spark: "SparkSession",
    wanted: "TableSpec",
    snapshot: TableSnapshot | None,
    ranges: Sequence[PartitionRange],
) -> TableDefinition:
    """The definition with the fields of the table, then those that are new.

    Raises  Misused for an invalid schema, CommandFailed if a field has another type now
    """
    definition = wanted.definition
    if not definition.is_decoded:
        return definition
    before = _fields(snapshot.state.definition.values.get("value.schema")) if snapshot else None
    now = _now(spark, wanted, ranges)
    fields = now if before is None else _grown(before, now, definition)
    if not fields.fields:
        raise CommandFailed(
            f"no field can be inferred: the new records of {definition.topic} have no JSON object"
        )
    if _differ_by_case(fields):
        spark.conf.set("spark.sql.caseSensitive", "true")
    by_day = [DAY_COLUMN] if DAY_COLUMN in definition.partition_by else []
    return replace(
        definition,
        values={**definition.values, "value.schema": fields.toDDL()},
        columns=value_columns(fields.fieldNames(), by_day),
    )


def _now(
    spark: "SparkSession", wanted: "TableSpec", ranges: Sequence[PartitionRange]
) -> "StructType":
    values = wanted.definition.values
    if wanted.definition.infer:
        return inferred_fields(spark, wanted, ranges)
    if "value.schema" in values:
        return _fields(values["value.schema"])
    from barnabas.spark.source.registry_schemas import registered_ddl
    from barnabas.spark.user_errors import SparkFailure

    try:
        subject = values.get("value.subject") or f"{wanted.definition.topic}-value"
        ddl = registered_ddl(values["schema.registry.url"], subject, values["value.format"])
    except SparkFailure as failure:
        raise CommandFailed(str(failure)) from None
    return _fields(ddl)


def _fields(ddl: str | None) -> "StructType":
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(ddl or "")
    except spark_errors() as error:
        raise Misused(f"--schema {ddl!r}: {explain(error)}") from None
    assert isinstance(found, StructType)
    return found


def _grown(before: Any, now: Any, definition: TableDefinition, where: str = "") -> Any:
    """The type with the fields of both, also within structs and arrays.

    A field of two types keeps the table's if fields are inferred: values that do not fit it are
    dead letters. Otherwise raises CommandFailed.
    """
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match before, now:
        case StructType(), StructType():
            known = {field.name: field for field in before.fields}
            for field in now.fields:
                old = known.get(field.name)
                if old is not None:
                    name = f"{where}.{field.name}" if where else field.name
                    kind = _grown(old.dataType, field.dataType, definition, name)
                    field = StructField(old.name, kind, old.nullable, old.metadata)
                known[field.name] = field
            return StructType(list(known.values()))
        case ArrayType(), ArrayType():
            inner = _grown(before.elementType, now.elementType, definition, where)
            return ArrayType(inner, before.containsNull)
        case MapType(), MapType() if before.keyType == now.keyType:
            inner = _grown(before.valueType, now.valueType, definition, where)
            return MapType(before.keyType, inner, before.valueContainsNull)
    if before != now and not definition.infer:
        raise CommandFailed(
            f"field {where} of {definition.topic} is {before.simpleString()} in the table and"
            f" {now.simpleString()} now; columns can be added, not changed"
        )
    return before


def _differ_by_case(kind: Any) -> bool:
    """True if some struct has two fields whose names differ only by case."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, ArrayType):
        return _differ_by_case(kind.elementType)
    if not isinstance(kind, StructType):
        return False
    names = {name.lower() for name in kind.fieldNames()}
    return len(names) < len(kind.fields) or any(_differ_by_case(f.dataType) for f in kind.fields)


def inferred_fields(
    spark: "SparkSession", wanted: "TableSpec", ranges: Sequence[PartitionRange]
) -> "StructType":
    """The fields of all JSON objects in the ranges."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructType

    from barnabas.spark.source.json_values import merged

    pa: Any = import_module("pyarrow")
    kind = pa.struct([])
    if ranges:
        rows = read_ranges(spark, {**COMMITTED, **wanted.options}, ranges).select("value")
        for row in rows.mapInArrow(_infer, "type binary").collect():
            reader = pa.ipc.read_schema(pa.py_buffer(bytes(row[0])))
            kind = merged(kind, reader.field("v").type)
    found = from_arrow_type(_known(kind) or pa.struct([]))
    assert isinstance(found, StructType)
    return found


def _infer(batches: Any) -> Any:
    """In a task: the type of each batch, as the bytes of an Arrow schema."""
    from barnabas.spark.source.json_values import inferred

    arrow: Any = import_module("pyarrow")
    for batch in batches:
        schema = arrow.schema([("v", inferred(batch.column(0)))])
        yield arrow.RecordBatch.from_pydict(
            {"type": arrow.array([schema.serialize().to_pybytes()], arrow.binary())}
        )


def _known(kind: Any) -> Any:
    """The type without what was only ever null or empty, as its type is not known; None if all."""
    pa: Any = import_module("pyarrow")
    types: Any = import_module("pyarrow.types")
    if types.is_struct(kind):
        fields = [(field.name, _known(field.type)) for field in kind]
        fields = [(name, inner) for name, inner in fields if inner is not None]
        return pa.struct(fields) if fields else None
    if types.is_list(kind):
        inner = _known(kind.value_type)
        return None if inner is None else pa.list_(inner)
    return None if types.is_null(kind) else kind
