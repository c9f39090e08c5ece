"""The concurrent part of the demo: selling, the query, kill and restart of a broker."""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Final

from barnabas.demo.demo_cluster import DemoCluster
from barnabas.demo.demo_pipeline import REVENUE, LiveQuery
from barnabas.demo.demo_report import Events
from barnabas.demo.demo_results import Freshness, LiveResults
from barnabas.demo.demo_sales import Till
from barnabas.demo.demo_watch import PARTITIONS, DemoWatch

# Times of the kill and of the restart, as fractions of the duration.
KILLED_AT: Final = 0.35
LAUNCHED_AT: Final = 0.6
_LOOK_EVERY_S: Final = 0.1
_RESULTS_WITHIN_S: Final = 60.0  # what is missing after that, the proof reports

Say = Callable[[str], None]
Show = Callable[[int, Freshness], None]


class Selling:
    """Runs everything at the same time; `events` records the times."""

    def __init__(
        self,
        cluster: DemoCluster,
        till: Till,
        query: LiveQuery,
        watch: DemoWatch,
        say: Say,
    ) -> None:
        self.events = Events()
        self.freshness = Freshness(till.ledger.sent_s)
        self._cluster = cluster
        self._till = till
        self._query = query
        self._results = LiveResults(cluster.bootstrap, PARTITIONS[REVENUE], self._on_counted)
        self._watch = watch
        self._say = say
        self._stopped = threading.Event()

    def run(self, seconds: int, show: Show) -> None:
        """Return when all orders are acknowledged and counted, and every replica is in sync.

        Calls `show` with the acknowledged orders and the freshness a few times a second.
        Raises  CommandFailed, all threads ended, if one of them fails
        """
        with ThreadPoolExecutor(4) as threads:
            try:
                self._till.open_shop()
                running = {threads.submit(self._query.run)}
                while not self._query.is_live.is_set():
                    running = _still_running(running)
                threads.submit(self._results.follow)
                running.add(threads.submit(self._sell, seconds))
                running.add(threads.submit(self._kill_and_return, seconds))
                patience = _RESULTS_WITHIN_S
                while running or (self._is_behind and patience > 0):
                    running = _still_running(running)
                    patience -= 0.0 if running else _LOOK_EVERY_S
                    self._look(show)
            finally:
                self._stop()

    @property
    def _is_behind(self) -> bool:
        return self.freshness.counted < self._till.ledger.acknowledged

    def _sell(self, seconds: int) -> None:
        self._till.sell(seconds)
        self._query.complete()

    def _on_counted(self, orders: int) -> None:
        self.freshness.note(orders, self._till.open_s)

    def _kill_and_return(self, seconds: int) -> None:
        if not self._wait_until(KILLED_AT * seconds):
            return
        leaders = self._watch.leaders()
        broker = leaders[0]
        self.events.killed_broker = broker
        self.events.led = frozenset(n for n, leader in leaders.items() if leader == broker)
        self.events.killed_s = self._till.open_s
        self._cluster.kill(broker)
        self._say(
            f"{self.events.killed_s:4.1f} s  [red]SIGKILL[/] for broker {broker}, leader of"
            f" {len(self.events.led)} of {len(leaders)} partitions"
        )
        if not self._wait_until(LAUNCHED_AT * seconds):
            return
        self.events.launched_s = self._till.open_s
        self._cluster.launch_again(broker)
        self._say(f"{self.events.launched_s:4.1f} s  broker {broker} is restarted")
        self._cluster.wait_until_returned()
        self._watch.wait_until_in_sync()
        self.events.in_sync_s = self._till.open_s
        self._say(f"{self.events.in_sync_s:4.1f} s  broker {broker} has caught up and is in sync")

    def _wait_until(self, open_s: float) -> bool:
        """Wait until this time; return False if the demo stops first."""
        return not self._stopped.wait(max(0.0, open_s - self._till.open_s))

    def _look(self, show: Show) -> None:
        acknowledged, counted = self._till.ledger.acknowledged, self.freshness.counted
        self.events.lag.append((self._till.open_s, acknowledged, counted))
        show(acknowledged, self.freshness)

    def _stop(self) -> None:
        """Stop all threads that still run."""
        self._stopped.set()
        self._till.stop()
        self._results.close()
        self._watch.close()
        self._query.stop()


def _still_running(threads: "set[Future[None]]") -> "set[Future[None]]":
    """Wait a little; raise what a thread raised."""
    if not threads:
        threading.Event().wait(_LOOK_EVERY_S)
    ended, running = wait(threads, _LOOK_EVERY_S, FIRST_EXCEPTION)
    for each in ended:
        each.result()
    return running
