"""`barnabas pipeline audit`: compares the replicas of logs, and archives with the log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import FAILED
from barnabas.cli.options import Json, check_topics
from barnabas.cli.show import counted, show_json
from barnabas.spark.pipeline_options import Conf, Master, Remote, spark_place
from barnabas.spark.session import EMBEDDED, spark_session

if TYPE_CHECKING:
    from barnabas.spark.audit.audit_findings import AuditResult


def audit(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR", help="Log directories of brokers, or a directory above them."
        ),
    ],
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
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="HTML report to write.")
    ] = Path("barnabas-audit.html"),
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Read the segments of all replicas in parallel and compare them.

    Checks CRCs, that offsets have no gaps or duplicates, leader epochs, that replicas are identical
    below the high watermark, and with --archive that the archive matches the log. Brokers may run
    meanwhile. Writes an HTML report with plots. The exit status is 1 if a check fails.

    \b
    Examples:
      barnabas pipeline audit ./barnabas-cluster
      barnabas pipeline audit /data/broker-0 /data/broker-1 --topic orders --archive ./archive
    """
    from rich.console import Console

    from barnabas.spark.archive.archive_files import ArchiveDirectory
    from barnabas.spark.audit.audit_archive import audit_archive
    from barnabas.spark.audit.audit_compare import audit_replicas
    from barnabas.spark.audit.audit_files import find_replicas
    from barnabas.spark.audit.audit_report import write_audit_report
    from barnabas.spark.spark_errors import spark_failures, unless_late

    replicas = find_replicas(folders, topic or ())
    compared = None if archive is None else ArchiveDirectory(archive)
    if compared is not None:
        compared.load(must_exist=True)  # errors are reported before Spark starts
    status = f"auditing {counted(len(replicas), 'replica')}"
    with (
        Console(stderr=True).status(status),
        spark_session("barnabas audit", spark_place(master, remote, conf)) as spark,
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
