"""`barnabas pipeline replay`: writes an archive, or a part of it, back to a topic."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.io.start_positions import parse_partitions
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Properties,
    Topic,
    parse_moment,
)
from barnabas.cli.show import counted, show_json, show_table
from barnabas.spark.pipeline_options import (
    Conf,
    Master,
    Remote,
    sink_options,
    source_options,
    spark_place,
)
from barnabas.spark.session import EMBEDDED, spark_session
from barnabas.spark.spark_errors import unless_late
from barnabas.spark.terminal import PipelineProgress, Rate, show_progress

if TYPE_CHECKING:
    from barnabas.spark.replay.replay_plan import ReplayPlan, ReplaySelection
    from barnabas.spark.replay.replay_run import ReadFiles, Replayer


def replay(
    topic: Topic,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR", help="Archive directory: a path, s3://, hdfs://..."),
    ] = None,
    from_table: Annotated[
        str | None,
        typer.Option("--from-table", metavar="PATH", help="Table to replay instead of an archive."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="Target topic [same name].")
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partitions", "-p", help="Only these partitions: 0,2 or 0-3."),
    ] = None,
    offsets: Annotated[
        str | None,
        typer.Option("--offsets", metavar="A..B", help="Only offsets from A to before B."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only records at or after TIME.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only records before TIME.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Write records that were replayed before again.")
    ] = False,
    step: Annotated[
        int, typer.Option("--step", min=1, metavar="RECORDS", help="Most records per step.")
    ] = 1_000_000,
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Write archived records to a topic, with their keys, headers, timestamps and partitions.

    Run the same command again to resume, or to replay records that the archive got since. No other
    producer may write to the topic meanwhile. A missing topic is created, with unlimited retention;
    one whose retention would delete the records is refused.

    \b
    Examples:
      barnabas pipeline replay orders --from ./archive --to orders-again
      barnabas pipeline replay orders --from ./archive --to test --since 2026-01-31T12:00:00Z
      barnabas pipeline replay orders --from ./archive --to test -p 0 --offsets 1000..2000
      barnabas pipeline replay orders --from-table ./orders --to orders-again
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.spark.archive.archive_files import ArchiveDirectory
    from barnabas.spark.archive.archive_run import read_files
    from barnabas.spark.replay.replay_run import Replayer, ReplaySpec
    from barnabas.spark.replay.replay_table import ReplayedTable
    from barnabas.spark.replay.replay_target import ensure_target

    selection = _selection(topic, partitions, offsets, since, until)
    if (source is None) == (from_table is None):
        raise Misused("give one of --from DIR and --from-table PATH")
    cluster = ClusterClients(bootstrap, properties)
    folder: ArchiveDirectory
    read: ReadFiles = read_files
    if from_table is not None:
        table = folder = ReplayedTable(from_table)
        read = table.rows
    else:
        folder = ArchiveDirectory(source or "")
    manifest = folder.load(must_exist=True)
    if topic not in manifest.topics:
        known = ", ".join(sorted(manifest.topics)) or "nothing"
        raise CommandFailed(f"{folder} has no topic {topic}; it has {known}")
    place = spark_place(master, remote, conf, once=True)  # we resume at what is missing
    options = sink_options(source_options(bootstrap, properties), place)
    wanted = ReplaySpec(selection, to or topic, options, step)
    target_id = ensure_target(cluster, manifest, selection, to or topic)
    with spark_session("barnabas replay", place) as spark:
        replayer = Replayer(spark, cluster, folder, wanted, read)
        plan = unless_late(lambda: replayer.begin(target_id, again=again))
        rate, records = Rate(), 0
        if not plan.is_done:
            records = _write(replayer, plan)
            unless_late(lambda: replayer.finish(plan, target_id))
    _summarize(plan, records, rate, json)


def _selection(
    topic: str,
    partitions: list[str] | None,
    offsets: str | None,
    since: str | None,
    until: str | None,
) -> "ReplaySelection":
    from barnabas.spark.replay.replay_plan import ReplaySelection

    first = end = None
    if offsets is not None:
        match = re.fullmatch(r"([0-9]{0,19})\.\.([0-9]{0,19})", offsets)
        if match is None:
            raise Misused(f"--offsets {offsets}: expected A..B, A.. or ..B")
        first, end = (int(bound) if bound else None for bound in match.groups())
    return ReplaySelection(
        topic,
        tuple(parse_partitions(partitions or ())),
        first,
        end,
        None if since is None else parse_moment(since, "--since "),
        None if until is None else parse_moment(until, "--until "),
    )


def _write(replayer: "Replayer", plan: "ReplayPlan") -> int:
    """Run the remaining steps; return the number of records they wrote."""
    before = replayer.written(plan)
    with show_progress(f"replaying to {plan.target}") as show:
        while (step := unless_late(lambda: replayer.step(plan))) is not None:
            show(PipelineProgress(step.records - before, step.left))
    return plan.records - before


def _summarize(plan: "ReplayPlan", records: int, rate: Rate, json: bool) -> None:
    columns = ("partition", "records", "from", "to", "base_offset")
    rows = [
        (number, each.records, each.first_offset, each.last_offset, each.base_offset)
        for number, each in sorted(plan.partitions.items())
    ]
    if json:
        listed = [dict(zip(columns, row, strict=True)) for row in rows]
        show_json({"topic": plan.target, "records": records, "partitions": listed})
        return
    if rows:
        show_table(columns, rows)
    whole = f"{plan.target} has {counted(plan.records, 'record')} of the archive, verified"
    if plan.is_done:
        print(f"nothing to replay: {whole}; --again writes them again")
    else:
        print(f"replayed {counted(records, 'record')} in {rate.seconds:.1f} s: {whole}")
