"""`barnabas pipeline table`: a topic as a table, exactly once."""

from threading import Event
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Properties, check_topics
from barnabas.cli.show import counted, show_bytes, show_json, show_table
from barnabas.spark.pipeline_options import (
    Conf,
    Continuous,
    Every,
    Master,
    Remote,
    source_options,
    spark_place,
)
from barnabas.spark.session import EMBEDDED, spark_session
from barnabas.spark.spark_errors import answers, unless_late
from barnabas.spark.table.table_retries import Retries
from barnabas.spark.table_log.table_state import TableDefinition
from barnabas.spark.terminal import PipelineProgress, Rate, ShowProgress, show_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.table.table_run import TableWriter
    from barnabas.spark.table.table_upkeep import Upkeep
    from barnabas.spark.table_log.table_directory import TableDirectory
    from barnabas.spark.table_log.table_log import TableLog

_MIB: Final = 1024 * 1024
_VALUES: Final = ("raw", "json", "avro", "protobuf")


Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Topic to write.", callback=check_topics)
]


def table(
    topic: Topic,
    to: Annotated[
        str, typer.Option("--to", metavar="PATH", help="Table's directory: a path, s3://...")
    ],
    format: Annotated[
        str, typer.Option("--format", help="Format of the table: delta, iceberg or parquet.")
    ] = "delta",
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="DDL", help="Fields of the values, as columns in SQL."),
    ] = None,
    schema_from: Annotated[
        str | None,
        typer.Option("--schema-from", metavar="registry", help="Take the fields from a registry."),
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="Schema registry's URL.")
    ] = None,
    infer: Annotated[
        bool, typer.Option("--infer", help="Take the fields from the JSON values themselves.")
    ] = False,
    values: Annotated[
        str | None,
        typer.Option("--value-format", help="Format of values: raw, json, avro or protobuf."),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by",
            metavar="COLUMN",
            help="Column for directories, or day of the timestamp; repeatable, or with commas.",
        ),
    ] = None,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Keep the latest record of each key only.")
    ] = False,
    dead_letters: Annotated[
        str | None,
        typer.Option("--dead-letters", metavar="TOPIC", help="Topic for values that do not fit."),
    ] = None,
    continuous: Continuous = False,
    every: Every = 5.0,
    max_lag: Annotated[
        int,
        typer.Option(
            "--max-lag", min=0, metavar="RECORDS", help="Wait until so many records are new."
        ),
    ] = 0,
    step: Annotated[
        int, typer.Option("--step", min=1, metavar="RECORDS", help="Most records per commit.")
    ] = 2_000_000,
    target_file_size: Annotated[
        int,
        typer.Option("--target-file-size", min=1, metavar="MIB", help="Size of data files."),
    ] = 128,
    keep_snapshots: Annotated[
        float,
        typer.Option("--keep-snapshots", min=0, metavar="HOURS", help="Age of expired snapshots."),
    ] = 168.0,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Continue past deleted records; record the gap.")
    ] = False,
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Write a topic to a table of Delta, Iceberg or Parquet, each record exactly once.

    Each commit of the table has the offsets that it covers. Run the same command again to add new
    records. It resumes where the last run ended, even if that run was killed.

    \b
    Examples:
      barnabas pipeline table orders --to ./orders --format delta
      barnabas pipeline table orders --to ./orders --schema 'id BIGINT, cents BIGINT' --continuous
      barnabas pipeline table users --to ./users --format iceberg --infer --upsert
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.spark.table.table_run import TableSpec, TableWriter
    from barnabas.spark.table.table_upkeep import Upkeep
    from barnabas.spark.table_log.table_directory import TableDirectory
    from barnabas.spark.table_log.table_log import found_format, open_log

    if not to:
        raise Misused("--to must not be empty; name a directory")
    directory = TableDirectory(to)
    log = open_log(directory, format)
    if (found := found_format(directory)) not in (None, format):
        raise Misused(f"--format {format}: {directory} is a table of {found}")
    if dead_letters == topic:
        raise Misused(f"--dead-letters {topic}: must be another topic than the table's")
    definition = TableDefinition(
        topic,
        _value_options(schema, schema_from, registry, infer, values),
        tuple(n.strip() for each in partition_by or () for n in each.split(",") if n.strip()),
        upsert,
        infer,
        dead_letters,
    )
    target_bytes = target_file_size * _MIB
    options = source_options(bootstrap, properties)
    wanted = TableSpec(definition, options, step, allow_gaps, target_bytes)
    with directory.locked(), directory.failures():
        writer = TableWriter(ClusterClients(bootstrap, properties), directory, log, wanted)
        upkeep = Upkeep(directory, log, target_bytes, keep_snapshots)
        run = _TableRun(writer, upkeep, log, directory)
        # Errors, and that there is nothing new, are reported before Spark starts.
        _, new = writer.uncovered()
        try:
            if new or continuous:
                place = spark_place(master, remote, conf)
                with spark_session("barnabas table", place) as spark:
                    run.write(spark, every if continuous else None, max_lag)
        except (CommandFailed, Misused):
            if run.records:
                run.summarize(json)
            raise
        except KeyboardInterrupt:
            run.summarize(json)
            raise
        run.summarize(json)


def _value_options(
    schema: str | None,
    schema_from: str | None,
    registry: str | None,
    infer: bool,
    values: str | None,
) -> dict[str, str]:
    """The options of the data source that decode values. Raises Misused."""
    if schema is not None and not schema.strip():
        raise Misused("--schema must name fields, such as 'id BIGINT, cents BIGINT'")
    if sum((schema is not None, schema_from is not None, infer)) > 1:
        raise Misused("give only one of --schema, --schema-from and --infer")
    if schema_from not in (None, "registry"):
        raise Misused(f"--schema-from {schema_from}: must be registry")
    if schema_from is not None and registry is None:
        raise Misused("--schema-from registry needs --registry URL")
    if values is not None and values not in _VALUES:
        raise Misused(f"--value-format {values}: must be one of {', '.join(_VALUES)}")
    has_fields = schema is not None or schema_from is not None or infer
    if values == "raw" and has_fields:
        raise Misused("--value-format raw has no fields; leave out the schema, or the format")
    if not has_fields:
        if values not in (None, "raw"):
            raise Misused(f"--value-format {values} needs --schema, --schema-from or --infer")
        if registry is not None:
            raise Misused("--registry needs --schema-from registry, or --schema DDL")
        return {}
    if infer and (registry is not None or values not in (None, "json")):
        raise Misused("--infer reads JSON; use --schema-from registry for other formats")
    given = {"value.format": values or ("avro" if schema_from else "json")}
    if schema is not None:
        given["value.schema"] = schema
    if registry is not None:
        given["schema.registry.url"] = registry
    return given


class _TableRun:
    """One run of the command, with its totals so far."""

    def __init__(
        self,
        writer: "TableWriter",
        upkeep: "Upkeep",
        log: "TableLog",
        directory: "TableDirectory",
    ) -> None:
        self._writer = writer
        self._upkeep = upkeep
        self._log = log
        self._directory = directory
        self._rate = Rate()
        self._before = writer.state
        self.records = self._dead = self._merged = 0

    def write(self, spark: "SparkSession", every_s: float | None, max_lag: int) -> None:
        """Write all new records; with `every_s` check again at that interval until Ctrl-C.

        The first step is not retried: a mistake ends the command at once.
        """
        with show_progress("writing") as show:
            is_behind = self._step(spark, show)
            if every_s is None:
                while is_behind:
                    is_behind = self._step(spark, show)
                return
            retries, allowed = Retries(lambda: answers(spark)), 0
            while True:
                with retries:
                    if self._lag() > allowed:
                        while self._step(spark, show):
                            pass
                    allowed = max_lag
                Event().wait(every_s)

    def _lag(self) -> int:
        return sum(each.size for each in self._writer.uncovered()[1])

    def _step(self, spark: "SparkSession", show: ShowProgress) -> bool:
        """Write the next step, with the upkeep after it; return False if it left nothing.

        What producers have sent since the step began is for the next run, or the next interval:
        otherwise a topic that always grows would never be caught up with.
        """
        step = unless_late(lambda: self._writer.step(spark))
        if step is None:
            return False
        self.records += step.records
        self._dead += step.dead
        show(PipelineProgress(self.records, step.left))
        self._writer.is_unfinished = True
        snapshot, merged = unless_late(lambda: self._upkeep.run(spark, self._writer.snapshot))
        self._writer.snapshot, self._writer.is_unfinished = snapshot, False
        self._merged += merged
        return step.left > 0

    def summarize(self, json: bool) -> None:
        """Print the covered offsets by partition, and the size of the table."""
        state, rows = self._writer.state, []
        for number, each in sorted(state.partitions.items()):
            known = self._before.partitions.get(number)
            new = each.end - (known.end if known is not None else each.start)
            rows.append((state.definition.topic, number, each.start, each.end, new))
        columns = ("topic", "partition", "start", "end", "new")
        files = self._log.files()
        size = sum(file.bytes for file in files)
        if json:
            show_json(
                {
                    "table": str(self._directory),
                    "format": self._log.name,
                    "records": self.records,
                    "deadLetters": self._dead,
                    "rows": state.rows,
                    "seconds": round(self._rate.seconds, 3),
                    "files": len(files),
                    "bytes": size,
                    "merged": self._merged,
                    "partitions": [dict(zip(columns, row, strict=True)) for row in rows],
                }
            )
            return
        show_table(columns, rows)
        seconds, rate = self._rate.seconds, self._rate.overall(self.records)
        dead = f", {counted(self._dead, 'dead letter')}" if self._dead else ""
        print(
            f"wrote {counted(self.records, 'row')}{dead} in {seconds:.1f} s ({rate:,.0f}/s);"
            f" {self._directory} has {counted(state.rows, 'row')} in"
            f" {counted(len(files), 'file')}, {show_bytes(size)}"
        )
