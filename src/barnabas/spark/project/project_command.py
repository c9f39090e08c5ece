"""`barnabas pipeline init`, `run` and `list`: projects of Spark Declarative Pipelines."""

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused, program
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
from barnabas.spark.terminal import Rate, show_progress

if TYPE_CHECKING:
    from barnabas.spark.project.project_files import Project
    from barnabas.spark.project.project_run import ProjectUpdates

_BOOTSTRAP: Final = "barnabas.bootstrap"
READY: Final = {
    "archive": "write topics to Parquet by topic and day, exactly once, with a manifest",
    "replay": "write an archive, or a range of it, back to a topic",
    "mirror": "copy topics, configs and group offsets to another cluster",
    "transform": "run SQL over a topic into another, bad records into a dead-letter topic",
    "audit": "compare all replicas and archives on disk; write a report with plots",
}

Place = Annotated[Path, typer.Argument(metavar="[PROJECT]", help="Project directory.")]


def init(
    name: Annotated[
        Path, typer.Argument(metavar="NAME", help="Directory to create; its name is the project's.")
    ],
    topic: Annotated[
        str, typer.Option("--topic", help="Topic to read.", callback=check_topics)
    ] = "orders",
    to: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="Topic to write.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a project of Spark Declarative Pipelines that reads one topic and writes another.

    \b
    Examples:
      barnabas pipeline init shop
      barnabas pipeline init shop --topic sales --to sales-per-minute
    """
    from barnabas.spark.project.project_files import create

    for file in create(name, topic, to, parse_bootstrap(bootstrap)):
        print(file)
    print(f"Edit {name}/transformations, then run: {program()} pipeline run {name}")


def run(
    place: Place = Path("."),
    continuous: Continuous = False,
    every: Every = 5.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate the pipeline.")] = False,
    refresh: Annotated[
        list[str] | None,
        typer.Option("--refresh", metavar="TABLE", help="Update only this table; repeatable."),
    ] = None,
    full_refresh: Annotated[
        list[str] | None,
        typer.Option("--full-refresh", metavar="TABLE", help="Rebuild this table; repeatable."),
    ] = None,
    full_refresh_all: Annotated[
        bool, typer.Option("--full-refresh-all", help="Rebuild all tables.")
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
            help="Brokers [barnabas.bootstrap of the project].",
        ),
    ] = None,
) -> None:
    """Run a project: process all new records, once or continuously.

    \b
    Examples:
      barnabas pipeline run shop
      barnabas pipeline run shop --continuous
      barnabas pipeline run shop --master spark://spark:7077 --conf spark.executor.memory=4g
    """
    from barnabas.spark.project.project_files import find

    if full_refresh_all and (refresh or full_refresh):
        raise Misused("--full-refresh-all excludes --refresh and --full-refresh")
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
    """Settings that keep tables and catalog in the project, so that they outlive the session."""
    directory = storage.removeprefix("file://")
    return {
        "spark.sql.warehouse.dir": f"{storage}/tables",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={directory}/catalog;create=true"
        ),
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={directory}/catalog.log",
    }


def _run(
    spark: Any, project: "Project", chosen: dict[str, Any], every_s: float | None, json: bool
) -> None:
    from barnabas.spark.project.project_run import ProjectUpdates

    for key, value in project.configuration.items():
        if not key.startswith("spark."):
            spark.conf.set(key, value)
    updates, rate = ProjectUpdates(spark, project), Rate()
    try:
        with show_progress(project.name) as show, updates.listening(show):
            unless_late(lambda: updates.update(chosen))
            later = {**chosen, "full_refresh": [], "full_refresh_all": False}
            while every_s is not None:
                Event().wait(every_s)
                unless_late(lambda: updates.update(later))
    finally:
        if updates.flows:
            _summarize(project, updates, rate, json)


def _summarize(project: "Project", updates: "ProjectUpdates", rate: Rate, json: bool) -> None:
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
    print(f"{project.name}: {done}, {read} in {rate.seconds:.1f} s ({speed})")


def list_pipelines(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Directory to search.")] = Path(
        "."
    ),
    json: Json = False,
) -> None:
    """List the projects in a directory, and the ready-made pipelines.

    \b
    Examples:
      barnabas pipeline list
      barnabas pipeline list ~/pipelines --json
    """
    from barnabas.spark.project.project_files import find_all

    if not folder.is_dir():
        raise CommandFailed(f"{folder} is not a directory")
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
        show_table(("pipeline", "description"), list(READY.items()))
        if projects:
            rows = [(each.name, str(each.folder), len(each.transformations)) for each in projects]
            show_table(("project", "directory", "transformations"), rows)
    for failure in found:
        if isinstance(failure, CommandFailed):
            raise failure
