"""The state of one console: its cluster, sessions, audit log, templates; made at the start."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from barnabas.base.clock import Clock, SystemClock
from barnabas.base.offload import Offload, ThreadOffload
from barnabas.base.randomness import Random
from barnabas.client.security import SecurityContext
from barnabas.console.cluster.broker_metrics import BrokerMetrics
from barnabas.console.cluster.console_client import ConsoleClient
from barnabas.console.cluster.pipeline_run import PipelineRun
from barnabas.console.cluster.topic_index import TopicIndexCache
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.messages.schema_registry import SchemaRegistry
from barnabas.console.watch.cluster_watch import ClusterWatch
from barnabas.console.watch.group_lags import GroupLags
from barnabas.console.watch.mirrors import Mirrors
from barnabas.console.watch.progress_rates import ProgressRates
from barnabas.console.watch.topic_figures import TopicFigures
from barnabas.console.web.access import Sessions
from barnabas.console.web.audit_log import AuditLog
from barnabas.console.web.limits import Attempts, Places
from barnabas.console.web.rendering import Templates
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import request_type, response_type

_LOG: Final = logging.getLogger("barnabas.console")
_THREADS: Final = 4
_FIRST_APIS: Final = (
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.LIST_GROUPS,
)
_LINGER_S: Final = 10.0
_LIVE_VIEWS: Final = 100
_SEARCHES: Final = 24
_FILTERS: Final = 8  # each is a process, which may have 768 MiB of memory


class ClusterHandle:
    """One cluster as one user of it sees it: client, caches, and the watch while people look."""

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str], offload: Offload, clock: Clock
    ) -> None:
        """Raises ConfigError"""
        self.properties = properties
        self.client = ConsoleClient(bootstrap, SecurityContext.of(properties), offload)
        self.index = TopicIndexCache(self.client, offload)
        self.lags = GroupLags(self.client, self.index, offload, clock)
        self.metrics = BrokerMetrics(self.client, offload)
        self.watch = ClusterWatch(self.client, self.index, self.lags, clock)
        self.figures = TopicFigures(self.client, self.watch.rates, offload)
        self.mirrors = Mirrors(self.client, self.index, offload)
        self.progress_rates = ProgressRates()
        self._viewers = 0
        self._watching: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While a live view is open the cluster is watched; soon after the last one it is not."""
        self._viewers += 1
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self.watch.run())
            self._watching.add_done_callback(_log_failure)
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers:
                asyncio.get_running_loop().call_later(_LINGER_S, self._stop_if_unwatched)

    def _stop_if_unwatched(self) -> None:
        if not self._viewers and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self.client.close()


def _load_schemas() -> None:
    for key in _FIRST_APIS:
        request_type(key, APIS[key].highest)
        response_type(key, APIS[key].highest)


def _log_failure(watching: "asyncio.Task[None]") -> None:
    """A watch that fails is a bug; it starts again with the next live view."""
    if not watching.cancelled() and (failure := watching.exception()) is not None:
        _LOG.error("the watch of the cluster failed", exc_info=failure)


class ConsoleState:
    """The parts of a console; `close` ends its connections and threads."""

    def __init__(self, options: ConsoleOptions, clock: Clock | None = None) -> None:
        self.options = options
        self.clock = clock or SystemClock()
        self.random = Random()
        self._executor = ThreadPoolExecutor(_THREADS)
        self.offload: Offload = ThreadOffload(self._executor)
        self.sessions = Sessions(self.random, self.clock, f"{options.bootstrap} {options.port}")
        self.attempts = Attempts()
        self.live_views = Places(_LIVE_VIEWS, "live pages")
        self.searches = Places(_SEARCHES, "searches of messages")
        self.filters = Places(_FILTERS, "searches with a filter")
        self.audit = AuditLog(self.clock, options.audit_log)
        self.templates = Templates()
        self.registry = SchemaRegistry(options.registry) if options.registry else None
        # With sign-in there is no cluster without a person's user.
        self.cluster = self.handle({} if options.sasl_mechanism else options.properties)
        self.stopping = asyncio.Event()
        # The pipelines that this console started, by name; they end with it.
        self.pipeline_runs: dict[str, PipelineRun] = {}

    def warm_up(self) -> None:
        """Load, in a thread, the schemas that the first page needs; asks nothing of the cluster."""
        self._executor.submit(_load_schemas)

    def handle(self, properties: Mapping[str, str]) -> ClusterHandle:
        """The cluster with these properties of the client. Raises ConfigError."""
        return ClusterHandle(self.options.bootstrap, properties, self.offload, self.clock)

    async def pause(self, seconds: float) -> bool:
        """Wait; False at once if the console stops, which ends every live view."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)
        return not self.stopping.is_set()

    def close(self) -> None:
        self.cluster.close()
        self.sessions.close()
        for run in self.pipeline_runs.values():
            run.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)
