"""The schema of a table's values: given, inferred or registered, and it only ever grows."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.archive.archive_run import read_ranges
from barnabas.spark.archive.archive_source import PartitionRange
from barnabas.spark.spark_errors import explain, spark_errors
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
    fields = now if before is None else _merged(before, now, definition.topic)
    if not fields.fields:
        raise CommandFailed(
            f"no field can be inferred: the new records of {definition.topic} have no JSON object"
        )
    return replace(definition, values={**definition.values, "value.schema": fields.toDDL()})


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


def _merged(before: "StructType", now: "StructType", topic: str) -> "StructType":
    from pyspark.sql.types import StructType

    known = {field.name: field for field in before.fields}
    for field in now.fields:
        old = known.get(field.name)
        if old is not None and old.dataType != field.dataType:
            raise CommandFailed(
                f"field {field.name} of {topic} is {old.dataType.simpleString()} in the table and"
                f" {field.dataType.simpleString()} now; columns can be added, not changed"
            )
        known[field.name] = old or field
    return StructType(list(known.values()))


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
        rows = read_ranges(spark, wanted.options, ranges).select("value")
        for row in rows.mapInArrow(_infer, "type binary").collect():
            reader = pa.ipc.read_schema(pa.py_buffer(bytes(row[0])))
            kind = merged(kind, reader.field("v").type)
    found = from_arrow_type(_without_nulls(kind))
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


def _without_nulls(kind: Any) -> Any:
    """The type without fields that were only ever null or empty: their type is not known yet."""
    pa: Any = import_module("pyarrow")
    types: Any = import_module("pyarrow.types")
    fields = []
    for field in kind:
        inner = field.type
        if types.is_struct(inner):
            inner = _without_nulls(inner)
        if _is_known(inner):
            fields.append((field.name, inner))
    return pa.struct(fields)


def _is_known(kind: Any) -> bool:
    types: Any = import_module("pyarrow.types")
    if types.is_null(kind):
        return False
    if types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_known(field.type) for field in kind)
    return _is_known(kind.value_type) if types.is_list(kind) else True
