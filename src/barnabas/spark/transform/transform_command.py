"""`barnabas pipeline transform`: SQL from one topic to another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Properties, Topic, read_text
from barnabas.cli.show import counted, show_json
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
from barnabas.spark.terminal import Rate, show_progress

if TYPE_CHECKING:
    from barnabas.spark.transform.transform_queries import TransformSpec
    from barnabas.spark.transform.transform_run import Transformation

_MODES: Final = ("append", "complete")


def transform(
    topic: Topic,
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="Topic for the results.")],
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="SELECT", help="Query; the topic is a table.")
    ] = None,
    sql_file: Annotated[
        Path | None, typer.Option("--sql-file", metavar="FILE", help="File with the query.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="DDL", help="Schema of JSON values: 'id BIGINT'."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect", metavar="CONDITION", help="Condition of a valid record; repeatable."
        ),
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option("--watermark", metavar="COLUMN:DELAY", help="Watermark: 'at: 10 minutes'."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="COLUMN", help="Result column to use as key.")
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters", metavar="TOPIC", help="Topic for bad records [<topic>-dead-letters]."
        ),
    ] = None,
    output_mode: Annotated[
        str,
        typer.Option(
            "--output-mode", help="append; or complete: write all results again with each batch."
        ),
    ] = "append",
    starting: Annotated[
        str, typer.Option("--starting", help="Where the first run starts: earliest or latest.")
    ] = "earliest",
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, metavar="RECORDS", help="Most records per batch."),
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="DIR", help="Directory for checkpoints.")
    ] = None,
    continuous: Continuous = False,
    every: Every = 1.0,
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Run SQL over a topic and write the results to another, exactly once.

    With --schema values are parsed as JSON, and its fields are columns beside key, topic,
    partition, offset, timestamp and headers. A record that does not match the schema, or fails an
    --expect, is written to the dead-letter topic with the reason in its headers. Results are
    written as JSON, unless they have a column `value`. SQL may use windows with --watermark.

    \b
    Examples:
      barnabas pipeline transform orders --to large --schema 'id BIGINT, cents BIGINT' \\
          --expect 'cents > 0' --sql 'SELECT * FROM orders WHERE cents > 10000' --key id
      barnabas pipeline transform orders --to per-minute --schema 'at TIMESTAMP, cents BIGINT' \\
          --watermark 'at: 10 minutes' --continuous \\
          --sql "SELECT window.start, sum(cents) FROM orders GROUP BY window(at, '1 minute')"
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.spark.small_files import Directory
    from barnabas.spark.transform.transform_queries import TransformSpec
    from barnabas.spark.transform.transform_run import Transformation, claim_state, ensure_topics

    if output_mode not in _MODES:
        raise Misused(f"--output-mode {output_mode}: expected {', '.join(_MODES)}")
    if starting not in ("earliest", "latest"):
        raise Misused(f"--starting {starting}: expected earliest or latest")
    judged = schema is not None or expect
    wanted = TransformSpec(
        topic,
        to,
        _text(sql, sql_file),
        source_options(bootstrap, properties),
        schema,
        tuple(expect or ()),
        _watermark(watermark),
        key,
        (dead_letters or f"{topic}-dead-letters") if judged else None,
        output_mode,
        starting,
        batch,
    )
    _check_topics(wanted)
    place = spark_place(master, remote, conf)
    if state is None and not place.is_embedded:
        raise Misused(
            "--state is missing: on a Spark cluster it must be a directory that all machines can"
            " reach, such as hdfs://... or s3://..."
        )
    folder = Directory(state or f".barnabas-transform/{topic}-to-{to}")
    ensure_topics(ClusterClients(bootstrap, properties), wanted)
    claim_state(folder, wanted)
    trigger: dict[str, Any] = (
        {"processingTime": f"{every:g} seconds"} if continuous else {"availableNow": True}
    )
    rate = Rate()
    with spark_session("barnabas transform", place) as spark:
        running = Transformation(spark, wanted, folder)
        running.start(trigger)
        try:
            with show_progress(f"{topic} to {to}") as show:
                running.watch(show)
        finally:
            running.stop()
            _summarize(wanted, running, rate, json)


def _text(sql: str | None, file: Path | None) -> str:
    if (sql is None) == (file is None):
        raise Misused("give either --sql SELECT or --sql-file FILE")
    return str(sql) if file is None else read_text(file)


def _watermark(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    column, colon, delay = text.partition(":")
    if not colon or not column.strip() or not delay.strip():
        raise Misused(f"--watermark {text}: expected COLUMN:DELAY, such as 'at: 10 minutes'")
    return column.strip(), delay.strip()


def _check_topics(wanted: "TransformSpec") -> None:
    if wanted.source in (wanted.target, wanted.dead_letters):
        raise Misused(f"{wanted.source} cannot be both source and target; name another topic")


def _summarize(wanted: "TransformSpec", running: "Transformation", rate: Rate, json: bool) -> None:
    result, bad = running.result, running.bad
    read, made = (result.records, result.written) if result is not None else (0, 0)
    letters = bad.written if bad is not None else 0
    if json:
        show_json({"records": read, "results": made, "bad": letters, "to": wanted.target})
        return
    rejected = (
        f", {counted(letters, 'bad record')} to {wanted.dead_letters}" if bad is not None else ""
    )
    print(
        f"read {counted(read, 'record')} of {wanted.source} in {rate.seconds:.1f} s; wrote"
        f" {counted(made, 'result')} to {wanted.target}{rejected}"
    )
