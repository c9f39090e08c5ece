"""`barnabas pipeline init`, `run` and `list`: projects of Spark Declarative Pipelines."""

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    check_topics,
    parse_bootstrap,
    parse_pairs,
)
from barnabas.cli.show import counted, show_json, show_table
from barnabas.spark.pipeline_options import Conf, Continuous, Every, Master, Remote
from barnabas.spark.session import EMBEDDED, SparkPlace, spark_session
from barnabas.spark.spark_errors import unless_late
from barnabas.spark.terminal import Rate, shown

if TYPE_CHECKING:
    from barnabas.spark.project.project_files import Project
    from barnabas.spark.project.project_run import Updates

_BOOTSTRAP: Final = "barnabas.bootstrap"
READY: Final = {
    "archive": "topics to Parquet by topic and day, exactly once, with a manifest",
    "replay": "an archive back into a topic, all of it or a range",
    "mirror": "topics, configs and group offsets from one cluster to another",
    "transform": "a topic through SQL into a topic, bad records into a dead-letter topic",
    "audit": "all replicas, and archives, compared on disk; a report with plots",
}

Place = Annotated[Path, typer.Argument(metavar="[PROJECT]", help="The project's folder.")]


def init(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The project, and its folder.")],
    topic: Annotated[
        str, typer.Option("--topic", help="The topic it reads.", callback=check_topics)
    ] = "orders",
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="The one it writes to.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write a project of Spark Declarative Pipelines that reads a topic and writes to another.

    \b
    Examples:
      barnabas pipeline init shop
      barnabas pipeline init shop --topic sales --to sales-per-minute
    """
    from barnabas.spark.project.project_files import create

    for file in create(name, topic, to, parse_bootstrap(bootstrap)):
        print(file)
    print(f"Change what is in {name}/transformations, then: barnabas pipeline run {name}")


def run(
    place: Place = Path("."),
    continuous: Continuous = False,
    every: Every = 5.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only see whether the pipeline makes sense.")
    ] = False,
    refresh: Annotated[
        list[str] | None, typer.Option("--refresh", metavar="TABLE", help="Only this; repeatable.")
    ] = None,
    full_refresh: Annotated[
        list[str] | None,
        typer.Option("--full-refresh", metavar="TABLE", help="Anew from the start; repeatable."),
    ] = None,
    full_refresh_all: Annotated[
        bool, typer.Option("--full-refresh-all", help="Everything anew from the start.")
    ] = False,
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            envvar="BARNABAS_BOOTSTRAP",
            metavar="HOST:PORT[,...]",
            help="Instead of the project's barnabas.bootstrap.",
        ),
    ] = None,
) -> None:
    """Run a project: process what is there, once, or again and again.

    \b
    Examples:
      barnabas pipeline run shop
      barnabas pipeline run shop --continuous
      barnabas pipeline run shop --master spark://spark:7077 --conf spark.executor.memory=4g
    """
    from barnabas.spark.project.project_files import find

    if full_refresh_all and (refresh or full_refresh):
        raise Misused("--full-refresh-all is all; leave out --refresh and --full-refresh")
    project = find(place)
    if bootstrap is not None:
        project.configuration[_BOOTSTRAP] = parse_bootstrap(bootstrap)
    chosen = {
        "refresh": refresh or [],
        "full_refresh": full_refresh or [],
        "full_refresh_all": full_refresh_all,
        "dry": dry_run,
    }
    place_of_spark = _place(project, master, remote, parse_pairs(conf, "--conf"))
    with spark_session(project.name, place_of_spark, connect=True) as spark:
        _run(spark, project, chosen, every if continuous else None, json)


def _place(project: "Project", master: str, remote: str | None, conf: dict[str, str]) -> SparkPlace:
    settings = {k: v for k, v in project.configuration.items() if k.startswith("spark.")}
    if SparkPlace(master, remote).is_embedded and project.storage.startswith("file:"):
        settings = {**_kept_in(project.storage), **settings}
    return SparkPlace(master, remote, {**settings, **conf})


def _kept_in(storage: str) -> dict[str, str]:
    """Tables, and what is known of them, outlive the session: they are part of the project."""
    folder = storage.removeprefix("file://")
    return {
        "spark.sql.warehouse.dir": f"{storage}/tables",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/catalog;create=true"
        ),
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/catalog.log",
    }


def _run(
    spark: Any, project: "Project", chosen: dict[str, Any], every_s: float | None, json: bool
) -> None:
    from barnabas.spark.project.project_run import Updates

    for key, value in project.configuration.items():
        if not key.startswith("spark."):
            spark.conf.set(key, value)
    updates, rate = Updates(spark, project), Rate()
    try:
        with shown(project.name) as show, updates.listening(show):
            unless_late(lambda: updates.update(chosen))
            later = {**chosen, "full_refresh": [], "full_refresh_all": False}
            while every_s is not None:
                Event().wait(every_s)
                unless_late(lambda: updates.update(later))
    finally:
        if updates.flows:
            _summarize(project, updates, rate, json)


def _summarize(project: "Project", updates: "Updates", rate: Rate, json: bool) -> None:
    columns = ("flow", "state", "records", "batches", "lag")
    rows = [
        (flow.name, flow.state.lower(), flow.records, flow.batches, flow.lag)
        for flow in updates.flows.values()
    ]
    if json:
        flows = [dict(zip(columns, row, strict=True)) for row in rows]
        show_json({"project": project.name, "updates": updates.count, "flows": flows})
        return
    show_table(columns, rows)
    done, read = counted(updates.count, "update"), counted(updates.records, "record")
    speed = f"{rate.overall(updates.records):,.0f}/s"
    print(f"{project.name}: {done}, {read} read in {rate.seconds:.1f} s ({speed})")


def list_pipelines(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where projects are.")] = Path(
        "."
    ),
    json: Json = False,
) -> None:
    """List the projects in a folder, and the pipelines that are ready for use.

    \b
    Examples:
      barnabas pipeline list
      barnabas pipeline list ~/pipelines --json
    """
    from barnabas.spark.project.project_files import find_all

    if not folder.is_dir():
        raise CommandFailed(f"{folder} is no folder")
    found = list(find_all(folder))
    projects = [each for each in found if not isinstance(each, CommandFailed)]
    if json:
        listed = [
            {
                "project": each.name,
                "folder": str(each.folder),
                "transformations": [
                    str(path.relative_to(each.folder)) for path in each.transformations
                ],
                "storage": each.storage,
            }
            for each in projects
        ]
        show_json({"projects": listed, "ready": [*READY]})
    else:
        show_table(("ready", "what it does"), list(READY.items()))
        if projects:
            rows = [(each.name, str(each.folder), len(each.transformations)) for each in projects]
            show_table(("project", "folder", "transformations"), rows)
    for failure in found:
        if isinstance(failure, CommandFailed):
            raise failure
