"""The concurrent part of the demo: selling, pipeline updates, kill and restart of a broker."""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final

from barnabas.demo.demo_cluster import DemoCluster
from barnabas.demo.demo_pipeline import WATERMARK, PipelineUpdates
from barnabas.demo.demo_report import Events
from barnabas.demo.demo_sales import Till
from barnabas.demo.demo_watch import ClusterWatch

# Times of the kill and of the restart, as fractions of the duration.
KILLED_AT: Final = 0.35
LAUNCHED_AT: Final = 0.6
_LOOK_EVERY_S: Final = 0.1

Say = Callable[[str], None]
Show = Callable[[int, int], None]


class Selling:
    """Runs everything at the same time; `events` records the times."""

    def __init__(
        self,
        cluster: DemoCluster,
        till: Till,
        updates: PipelineUpdates,
        watch: ClusterWatch,
        say: Say,
    ) -> None:
        self.events = Events()
        self._cluster = cluster
        self._till = till
        self._updates = updates
        self._watch = watch
        self._say = say
        self._stopped = threading.Event()

    def run(self, seconds: int, show: Show) -> None:
        """Return when all orders are acknowledged and counted, and every replica is in sync.

        Calls `show` with acknowledged and counted orders a few times a second.
        Raises  CommandFailed, all threads ended, if one of them fails
        """
        with ThreadPoolExecutor(4) as threads:
            try:
                threads.submit(self._watch.follow_group)
                working = {
                    threads.submit(self._sell, seconds),
                    threads.submit(self._updates.run),
                    threads.submit(self._kill_and_return, seconds),
                }
                while working:
                    ended, working = wait(working, _LOOK_EVERY_S, FIRST_EXCEPTION)
                    for each in ended:
                        each.result()
                    self._look(show)
            finally:
                self._stop()
        self.events.updates = [
            (self._till.since(update.begin_ns), self._till.since(update.end_ns))
            for update in self._updates.done
        ]

    def _sell(self, seconds: int) -> None:
        self._till.sell(seconds)
        self._till.close_shop(WATERMARK)
        self._updates.complete()

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
        acknowledged, taken = self._till.ledger.acknowledged, self._watch.taken
        self.events.lag.append((self._till.open_s, acknowledged, taken))
        show(acknowledged, min(taken, acknowledged))

    def _stop(self) -> None:
        """Stop all threads that still run."""
        self._stopped.set()
        self._till.stop()
        self._updates.stop()
        self._watch.close()
