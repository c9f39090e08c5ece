"""`barnabas pipeline archive`: topics to Parquet, exactly once."""

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
from barnabas.spark.terminal import Progress, Rate, Show, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.archive.archive_files import ArchiveFolder
    from barnabas.spark.archive.archive_run import Archiver

Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", help="The topics.", callback=check_topics)
]


def archive(
    topics: Topics,
    to: Annotated[
        str, typer.Option("--to", metavar="FOLDER", help="The archive: a path, s3://, hdfs://...")
    ],
    continuous: Continuous = False,
    every: Every = 10.0,
    step: Annotated[
        int, typer.Option("--step", min=1, metavar="RECORDS", help="At most so many at a time.")
    ] = 2_000_000,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Records deleted before are no error, but noted.")
    ] = False,
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Write what topics have to Parquet files by topic and day, each record exactly once.

    What is archived already is not read again: the same command goes on where the last one ended,
    however that was. _manifest.json in the folder has offsets, counts and checksums.

    \b
    Examples:
      barnabas pipeline archive orders users --to ./archive
      barnabas pipeline archive orders --to ./archive --continuous --every 60
    """
    from barnabas.cli.client import Cluster
    from barnabas.spark.archive.archive_files import ArchiveFolder
    from barnabas.spark.archive.archive_run import Archiver, Archiving

    if not to:
        raise Misused("--to: the name of the folder is empty; give one")
    folder = ArchiveFolder(to)
    wanted = Archiving(
        tuple(dict.fromkeys(topics)), source_options(bootstrap, properties), step, allow_gaps
    )
    with folder.locked():
        archiver = Archiver(Cluster(bootstrap, properties), folder, wanted)
        run = _Run(archiver, folder)
        # What is wrong is said, and that nothing is new, before Spark starts.
        _, new = archiver.behind()
        folder.remove_strangers(archiver.manifest)
        try:
            if new or continuous:
                place = spark_place(master, remote, conf)
                with spark_session("barnabas archive", place) as spark:
                    run.go_on(spark, every if continuous else None)
        finally:
            run.summarize(json)


class _Run:
    """One run of the command, and what it has done so far."""

    def __init__(self, archiver: "Archiver", folder: "ArchiveFolder") -> None:
        self._archiver = archiver
        self._folder = folder
        self._rate = Rate()
        self._before = archiver.manifest
        self._records = 0
        self._compacted = 0

    def go_on(self, spark: "SparkSession", every_s: float | None) -> None:
        """Archive until nothing is new; with `every_s` look again so often, until Ctrl-C."""
        with shown("archiving") as show:
            self._catch_up(spark, show)
            while every_s is not None:
                Event().wait(every_s)
                self._catch_up(spark, show)

    def _catch_up(self, spark: "SparkSession", show: Show) -> None:
        from barnabas.spark.archive.archive_compaction import compact

        while (step := unless_late(lambda: self._archiver.step(spark))) is not None:
            self._records += step.records
            show(Progress(self._records, step.left))
            self._archiver.manifest, merged = unless_late(lambda: compact(spark, self._folder))
            self._compacted += merged

    def summarize(self, json: bool) -> None:
        """Say what was added, topic by topic, and what the archive has now."""
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
            f" {self._folder} has {counted(len(now.files), 'file')} of {show_bytes(size)}"
        )
