"""Updates of a project: runs them and counts the records and the lag of each flow."""

import contextlib
import io
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.project.project_files import Project
from barnabas.spark.source.stream_offset import lag_of
from barnabas.spark.spark_errors import SparkCommandFailed, explain, spark_errors, spark_failures
from barnabas.spark.terminal import PipelineProgress, ShowProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# After this time without an event, no more events are expected.
_QUIET_S: Final = 0.5
_LOOKS: Final = 20


@dataclass
class Flow:
    """The state and totals of one flow."""

    name: str
    state: str = "QUEUED"
    records: int = 0
    batches: int = 0
    lag: int | None = None


class ProjectUpdates:
    """Runs updates of a project on a Spark Connect session and counts their records."""

    def __init__(self, spark: "SparkSession", project: Project) -> None:
        self._spark = spark
        self._project = project
        self._show: ShowProgress | None = None
        self._failure: str | None = None
        self._event = threading.Condition()
        self.flows: dict[str, Flow] = {}
        self.count = 0

    @contextlib.contextmanager
    def listening(self, show: ShowProgress) -> Iterator[None]:
        """Receive Spark's events in a thread of its own, and show the progress."""
        self._show = show
        streams: Any = self._spark.streams
        # Not with addListener: removing a listener may wait for ever for its thread.
        events = streams._sqlb._register_server_side_listener()
        thread = threading.Thread(target=self._listen, args=(streams._sqlb, events), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._show = None

    def _listen(self, bus: Any, results: Iterator[Mapping[str, Any]]) -> None:
        """Handle events until the session ends."""
        with contextlib.suppress(*spark_errors(), ValueError):
            for result in results:
                for event in result["streaming_query_listener_events_result"].events:
                    self._on_query_event(bus.deserialize(event))

    def _on_query_event(self, event: Any) -> None:
        if hasattr(event, "progress"):
            self.on_progress(event.progress)
        elif getattr(event, "exception", None):
            self.on_failed(event.exception)
        with self._event:
            self._event.notify_all()

    def update(self, refresh: Mapping[str, Any]) -> None:
        """Process all records up to the current end, then return.

        Raises  CommandFailed if the project is invalid, or if a flow fails
        """
        from pyspark.pipelines import cli, spark_connect_pipeline
        from pyspark.pipelines.spark_connect_graph_element_registry import (
            SparkConnectGraphElementRegistry,
        )

        project, self._failure = self._project, None
        with spark_failures(project.name):
            spec = cli.load_pipeline_spec(project.spec_file)
            graph = spark_connect_pipeline.create_dataflow_graph(
                self._spark, spec.catalog, spec.database, project.configuration
            )
            registry = SparkConnectGraphElementRegistry(self._spark, graph)
            # Spark prints the name of every file that it loads.
            with UserCode(project.folder), contextlib.redirect_stdout(io.StringIO()):
                cli.register_definitions(project.spec_file, registry, spec, self._spark, graph)
            for result in spark_connect_pipeline.start_run(
                self._spark, graph, storage=spec.storage, **refresh
            ):
                if "pipeline_event_result" in result:
                    self.on_event(str(result["pipeline_event_result"].event.message))
            self._drop(graph)
        self._await_last_batches()
        self.count += 1

    def _drop(self, graph: str) -> None:
        """Drop the graph of an update: the server would keep it until the session ends."""
        import pyspark.sql.connect.proto as messages

        session: Any = self._spark
        command = messages.Command()
        command.pipeline_command.drop_dataflow_graph.dataflow_graph_id = graph
        session.client.execute_command(command)

    def on_event(self, message: str) -> None:
        words = message.rstrip(".").replace("'", "").split()
        if words[0] == "Flow" and len(words) > 3:
            # FAILED is not final: Spark retries a flow several times.
            self._flow(words[1]).state = words[3].rstrip(".:,")
            self.show()
        if message.startswith("Run ") and "FAILED" in message:
            self._await_last_batches()
            raise SparkCommandFailed(
                f"{self._project.name}: {self._failure or message.rstrip('.')}"
            )

    def on_failed(self, failure: str) -> None:
        """A query has failed with this message; Spark may retry it."""
        self._failure = explain(SparkCommandFailed(failure))

    def on_progress(self, progress: Any) -> None:
        """A micro-batch of a flow is done."""
        flow = self._flow(progress.name)
        flow.records += progress.numInputRows
        flow.batches += 1
        lag = lag_of(progress.sources)
        flow.lag = flow.lag if lag is None else lag
        self.show()

    def show(self) -> None:
        show = self._show
        if show is None:
            return
        flows = list(self.flows.values())
        running = [flow.name for flow in flows if flow.state == "RUNNING"]
        lags = [flow.lag for flow in flows if flow.lag is not None]
        note = f"running {', '.join(running)}" if running else ""
        show(PipelineProgress(self.records, sum(lags) if lags else None, note))

    @property
    def records(self) -> int:
        return sum(flow.records for flow in self.flows.values())

    def _flow(self, name: str) -> Flow:
        # Catalog and database are the same for all flows.
        short = name.rpartition(".")[2]
        return self.flows.setdefault(short, Flow(short))

    def _await_last_batches(self) -> None:
        """Wait for the events of batches, which arrive a little after the end of the update."""
        with self._event:
            for _ in range(_LOOKS):
                if not self._event.wait(_QUIET_S):
                    return


class UserCode:
    """Turns any exception of a project's files into one line that names file and line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, CommandFailed):
            place = self._place(error)
            raise CommandFailed(f"{place}: {type(error).__name__}: {explain(error)}") from None

    def _place(self, error: Exception) -> str:
        if isinstance(error, SyntaxError) and error.filename is not None:
            return f"{error.filename} line {error.lineno}"
        frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if Path(each.filename).is_relative_to(self._folder)]
        return f"{own[-1].filename} line {own[-1].lineno}" if own else str(self._folder)
