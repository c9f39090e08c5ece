"""A running transformation: starts its queries, shows their progress and stops them."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.client import ClusterClients, admin, create_topics, find_topic
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.dead_letters import dead_letters
from barnabas.spark.small_files import Directory
from barnabas.spark.source.stream_offset import lag_of
from barnabas.spark.spark_errors import LATE, STARTS, report_late, spark_failures
from barnabas.spark.terminal import PipelineProgress, ShowProgress
from barnabas.spark.transform.transform_queries import (
    TransformSpec,
    check_streaming,
    records,
    results,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_EVERY_S: Final = 0.5
_QUERY: Final = "query.json"
_WRITTEN: Final = "written"


@dataclass
class RunningTransform:
    """One streaming query and its totals so far; `start` restarts it."""

    start: Callable[[], Any]
    query: Any
    records: int = 0
    written: int = 0
    lag: int | None = None
    starts: int = 0
    _seen: int = field(default=-1)

    def poll(self) -> None:
        """Add the progress that Spark reported since the last call."""
        for progress in self.query.recentProgress:
            if progress.batchId <= self._seen:
                continue
            self._seen = progress.batchId
            self.records += progress.numInputRows
            self.written += _count(progress.observedMetrics.get(_WRITTEN))
            self.lag = lag_of(progress.sources)

    def check(self) -> bool:
        """Raise the query's failure; but restart it and return true if its worker was late."""
        failure = self.query.exception()
        if failure is None:
            return False
        self.starts += 1
        if LATE not in str(failure) or self.starts >= STARTS:
            raise failure
        report_late(self.starts + 1)
        self.query = self.start()
        return True


def _count(metrics: Any) -> int:
    """The observed number; through Spark Connect it is in a list beside its schema."""
    if metrics is None:
        return 0
    return int(metrics[0][0] if isinstance(metrics[0], list) else metrics[0])


def ensure_topics(cluster: ClusterClients, wanted: TransformSpec) -> list[str]:
    """Create the topics that are written to, with as many partitions as the source.

    Return those that were created. Raises CommandFailed if the source does not exist.
    """
    client, metadata = cluster.admin()
    partitions = len(find_topic(metadata, wanted.source).partitions)
    names = [wanted.target, *([wanted.dead_letters] if wanted.dead_letters else [])]
    missing = [name for name in dict.fromkeys(names) if name not in metadata.topics]
    if missing:
        made = [
            admin.NewTopic(name, num_partitions=partitions, replication_factor=-1)
            for name in missing
        ]
        create_topics(client, made)
    return missing


def claim_state(folder: Directory, wanted: TransformSpec) -> None:
    """Bind the state directory to this transformation.

    Raises  CommandFailed if it holds the checkpoints of another transformation
    """
    spec = json.dumps(
        [wanted.source, wanted.target, wanted.sql, wanted.schema, wanted.expectations,
         wanted.watermark, wanted.key, wanted.output_mode]
    )  # fmt: skip
    digest = hashlib.sha256(spec.encode()).hexdigest()
    try:
        text = folder.read(_QUERY)
        if text is None:
            text = json.dumps({"sql": wanted.sql, "digest": digest})
            folder.write(_QUERY, text)
        known = json.loads(text)["digest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"{folder}/{_QUERY}: {error}") from None
    if known != digest:
        raise CommandFailed(
            f"{folder} has the state of another transformation, with other SQL or options;"
            " name another directory with --state, or remove this one to start over"
        )


class Transformation:
    """The queries of one transformation; they resume where the last run ended."""

    def __init__(self, spark: "SparkSession", wanted: TransformSpec, state: Directory) -> None:
        self._spark = spark
        self._wanted = wanted
        self._state = state
        self.result: RunningTransform | None = None
        self.bad: RunningTransform | None = None

    def start(self, trigger: Mapping[str, Any]) -> None:
        """Start the queries; `trigger` decides whether they stop at the current end.

        Raises  CommandFailed if the SQL is invalid; no query runs then
        """
        wanted = self._wanted
        with spark_failures("transforming"):
            rows = records(self._spark, wanted)
            made = results(self._spark, rows, wanted)
            check_streaming(made, wanted)
            self.result = self._run(made, "result", wanted.target, wanted.output_mode, trigger)
            if wanted.dead_letters is not None:
                letters = dead_letters(rows)
                self.bad = self._run(letters, "bad", wanted.dead_letters, "append", trigger)

    def watch(self, show: ShowProgress) -> None:
        """Return when all queries have ended. Raises CommandFailed if one has failed."""
        with spark_failures("transforming"):
            while True:
                # Read this before the checks: a query that fails in between is checked next time.
                active = any(each.query.isActive for each in self._queries())
                self._show(show)
                restarted = [each.check() for each in self._queries()]
                if not active and not any(restarted):
                    return
                Event().wait(_LOOK_EVERY_S)

    def stop(self) -> None:
        with spark_failures("stopping"):
            for each in self._queries():
                if each.query.isActive:
                    each.query.stop()

    def _run(
        self, rows: "DataFrame", name: str, topic: str, mode: str, trigger: Mapping[str, Any]
    ) -> RunningTransform:
        from pyspark.sql import functions as f

        writer = (
            rows.observe(_WRITTEN, f.count(f.lit(1)))
            .writeStream.format("barnabas")
            .options(**self._wanted.options)
            .option("topic", topic)
            .option("exactlyOnce", "true")
            .option("checkpointLocation", self._state.uri_of(name))
            .queryName(f"{self._wanted.source}-to-{topic}")
            .outputMode(mode)
            .trigger(**trigger)
        )
        return RunningTransform(writer.start, writer.start())

    def _queries(self) -> list[RunningTransform]:
        return [each for each in (self.result, self.bad) if each is not None]

    def _show(self, show: ShowProgress) -> None:
        for each in self._queries():
            each.poll()
        assert self.result is not None, "shown before it was started"
        bad = f"{self.bad.written:,} bad" if self.bad is not None and self.bad.written else ""
        show(PipelineProgress(self.result.records, self.result.lag, bad))
