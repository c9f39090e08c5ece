"""`barnabas pipeline archive`: topics to Parquet files, exactly once."""

from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import Misused
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
from barnabas.spark.spark_errors import unless_late
from barnabas.spark.terminal import PipelineProgress, Rate, ShowProgress, show_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.archive.archive_files import ArchiveDirectory
    from barnabas.spark.archive.archive_run import Archiver

Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC", help="Topics to archive.", callback=check_topics)
]


def archive(
    topics: Topics,
    to: Annotated[
        str,
        typer.Option("--to", metavar="DIR", help="Archive directory: a path, s3://, hdfs://..."),
    ],
    continuous: Continuous = False,
    every: Every = 10.0,
    step: Annotated[
        int, typer.Option("--step", min=1, metavar="RECORDS", help="Most records per step.")
    ] = 2_000_000,
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
    """Write topics to Parquet files by topic and day, each record exactly once.

    Run the same command again to archive new records. It resumes where the last run ended, even if
    that run was killed. _manifest.json in the directory lists offsets, counts and checksums.

    \b
    Examples:
      barnabas pipeline archive orders users --to ./archive
      barnabas pipeline archive orders --to ./archive --continuous --every 60
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.spark.archive.archive_files import ArchiveDirectory
    from barnabas.spark.archive.archive_run import Archiver, ArchiveSpec

    if not to:
        raise Misused("--to must not be empty; name a directory")
    folder = ArchiveDirectory(to)
    wanted = ArchiveSpec(
        tuple(dict.fromkeys(topics)), source_options(bootstrap, properties), step, allow_gaps
    )
    with folder.locked():
        archiver = Archiver(ClusterClients(bootstrap, properties), folder, wanted)
        run = _ArchiveRun(archiver, folder)
        # Errors, and that there is nothing new, are reported before Spark starts.
        _, new = archiver.unarchived()
        folder.remove_unlisted(archiver.manifest)
        try:
            if new or continuous:
                place = spark_place(master, remote, conf)
                with spark_session("barnabas archive", place) as spark:
                    run.archive(spark, every if continuous else None)
        finally:
            run.summarize(json)


class _ArchiveRun:
    """One run of the command, with its totals so far."""

    def __init__(self, archiver: "Archiver", folder: "ArchiveDirectory") -> None:
        self._archiver = archiver
        self._folder = folder
        self._rate = Rate()
        self._before = archiver.manifest
        self._records = 0
        self._compacted = 0

    def archive(self, spark: "SparkSession", every_s: float | None) -> None:
        """Archive all new records; with `every_s` check again at that interval until Ctrl-C."""
        with show_progress("archiving") as show:
            self._catch_up(spark, show)
            while every_s is not None:
                Event().wait(every_s)
                self._catch_up(spark, show)

    def _catch_up(self, spark: "SparkSession", show: ShowProgress) -> None:
        from barnabas.spark.archive.archive_compaction import compact

        while (step := unless_late(lambda: self._archiver.step(spark))) is not None:
            self._records += step.records
            show(PipelineProgress(self._records, step.left))
            self._archiver.manifest, merged = unless_late(lambda: compact(spark, self._folder))
            self._compacted += merged
            if not step.left:  # otherwise a topic that always grows would keep it busy forever
                break

    def summarize(self, json: bool) -> None:
        """Print the new records by partition, and the size of the archive."""
        now, rows = self._archiver.manifest, []
        for name, topic in sorted(now.topics.items()):
            before = self._before.topics.get(name)
            for number, each in sorted(topic.partitions.items()):
                known = before.partitions.get(number) if before is not None else None
                had = known.records if known is not None else 0
                rows.append((name, number, each.start, each.end, each.records, each.records - had))
        columns = ("topic", "partition", "start", "end", "records", "new")
        size = sum(file.bytes for file in now.files)
        if json:
            show_json(
                {
                    "archive": str(self._folder),
                    "records": self._records,
                    "seconds": round(self._rate.seconds, 3),
                    "files": len(now.files),
                    "bytes": size,
                    "compacted": self._compacted,
                    "partitions": [dict(zip(columns, row, strict=True)) for row in rows],
                }
            )
            return
        show_table(columns, rows)
        seconds, rate = self._rate.seconds, self._rate.overall(self._records)
        print(
            f"archived {counted(self._records, 'new record')} in {seconds:.1f} s ({rate:,.0f}/s);"
            f" {self._folder} has {counted(len(now.files), 'file')}, {show_bytes(size)}"
        )
