"""`barnabas pipeline audit`: compares the replicas of logs, and archives with the log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import FAILED, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Properties, check_topics
from barnabas.cli.show import counted, show_json
from barnabas.spark.pipeline_options import Conf, Master, Remote, source_options, spark_place
from barnabas.spark.session import EMBEDDED, SparkPlace, spark_session

if TYPE_CHECKING:
    from barnabas.spark.audit.audit_findings import AuditResult


def audit(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR", help="Log directories of brokers, or a directory above them."
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", help="Audit only this topic; repeatable.", callback=check_topics
        ),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option("--archive", metavar="DIR", help="Archive to compare with the log."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="PATH", help="Table to compare with its topic."),
    ] = None,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="HTML report to write.")
    ] = Path("barnabas-audit.html"),
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Read the segments of all replicas in parallel and compare them.

    Checks CRCs, that offsets have no gaps or duplicates, leader epochs, that replicas are identical
    below the high watermark, and with --archive that the archive matches the log. Brokers may run
    meanwhile. Writes an HTML report with plots. With --table it compares a table with its topic
    instead, through the brokers. The exit status is 1 if a check fails.

    \b
    Examples:
      barnabas pipeline audit ./barnabas-cluster
      barnabas pipeline audit /data/broker-0 /data/broker-1 --topic orders --archive ./archive
      barnabas pipeline audit --table ./orders
    """
    from rich.console import Console

    from barnabas.spark.archive.archive_files import ArchiveDirectory
    from barnabas.spark.audit.audit_archive import audit_archive
    from barnabas.spark.audit.audit_compare import audit_replicas
    from barnabas.spark.audit.audit_files import find_replicas
    from barnabas.spark.audit.audit_report import write_audit_report
    from barnabas.spark.spark_errors import spark_failures, unless_late

    place = spark_place(master, remote, conf)
    if table is not None:
        if folders or archive is not None:
            raise Misused("--table is an audit of its own; leave out DIR and --archive")
        _audit_table(table, place, bootstrap, properties, json)
        return
    if not folders:
        raise Misused("name the log directories of brokers, or a table with --table")
    replicas = find_replicas(folders, topic or ())
    compared = None if archive is None else ArchiveDirectory(archive)
    if compared is not None:
        compared.load(must_exist=True)  # errors are reported before Spark starts
    status = f"auditing {counted(len(replicas), 'replica')}"
    with (
        Console(stderr=True).status(status),
        spark_session("barnabas audit", place, topics=False) as spark,
    ):

        def compare() -> "AuditResult":
            with spark_failures("the audit"):
                found = audit_replicas(spark, replicas)
                if compared is not None:
                    audit_archive(spark, compared, found)
                return found

        audited = unless_late(compare)
    write_audit_report(report, audited, compared is not None)
    _show(audited, report, compared is not None, json)
    raise typer.Exit(FAILED if audited.findings else 0)


def _audit_table(
    path: str, place: SparkPlace, bootstrap: str, properties: list[str] | None, json: bool
) -> None:
    """Compare a table with its topic, print the outcome, and exit with 1 if they differ."""
    from rich.console import Console

    from barnabas.cli.client import ClusterClients
    from barnabas.spark.spark_errors import unless_late
    from barnabas.spark.table.table_audit import audit_table, find_comparable
    from barnabas.spark.table_log.table_directory import TableDirectory
    from barnabas.spark.table_log.table_log import load_table

    directory = TableDirectory(path)
    log, snapshot = load_table(directory)
    options, cluster = source_options(bootstrap, properties), ClusterClients(bootstrap, properties)
    comparable = find_comparable(cluster, snapshot)  # errors are reported before Spark starts
    with (
        Console(stderr=True).status(f"auditing {directory}"),
        spark_session("barnabas audit", place) as spark,
    ):
        found = unless_late(
            lambda: audit_table(spark, cluster, options, directory, log, snapshot, comparable)
        )
    if json:
        show_json({"table": str(directory), **found._asdict()})
    else:
        for problem in found.problems:
            print(f"FAIL  {problem}")
        for note in found.notes:
            print(f"note  {note}")
        verdict = "FAIL  the table differs from" if found.problems else "ok    the table matches"
        print(f"{verdict} the log: {found.rows:,} rows, {found.compared:,} compared")
    raise typer.Exit(FAILED if found.problems else 0)


def _show(audited: "AuditResult", report: Path, with_archive: bool, json: bool) -> None:
    from barnabas.spark.audit.audit_report import claims

    if json:
        show_json(
            {
                "replicas": len(audited.replicas),
                "records": sum(totals.records for totals in audited.totals.values()),
                "findings": [
                    {**finding._asdict(), "kind": finding.kind.name.lower()}
                    | {"partition": str(finding.partition)}
                    for finding in audited.findings
                ],
                "notes": audited.notes,
                "report": str(report.absolute()),
            }
        )
        return
    for finding in audited.findings:
        print(f"FAIL  {finding}")
    for note in audited.notes:
        print(f"note  {note}")
    for holds, claim in claims(audited, with_archive):
        print(f"{'ok' if holds else 'FAIL':4}  {claim}")
    print(
        f"{counted(len(audited.replicas), 'replica')},"
        f" {sum(totals.records for totals in audited.totals.values()):,} records;"
        f" report: {report.absolute()}"
    )
