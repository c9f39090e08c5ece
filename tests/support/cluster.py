"""A cluster of broker processes on a real ZooKeeper: killed, paused, restarted."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.support.agreement import (
    context_and_znodes,
    disk_and_znodes,
    metadata_and_znodes,
    read_znodes,
    unsettled,
    znodes_if_whole,
    znodes_in_themselves,
)
from tests.support.asking import ask
from tests.support.broker import BrokerProcess
from tests.support.waiting import WITHIN_S, until

# Short, so that a dead broker is noticed soon.
SESSION_TIMEOUT_MS: Final = 2_000

__all__ = ["Cluster", "read_znodes", "until"]


class Cluster:
    """Some brokers by id; the test calls `close`."""

    def __init__(
        self, folder: Path, zookeeper: str, brokers: int = 3, overrides: Sequence[str] = ()
    ) -> None:
        self.zookeeper = zookeeper
        self._folder = folder
        self._overrides = [f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}", *overrides]
        self.brokers = {number: self._broker(number) for number in range(brokers)}

    def _broker(self, number: int, overrides: Sequence[str] = ()) -> BrokerProcess:
        folder = self._folder / f"broker-{number}"
        folder.mkdir(parents=True)
        return BrokerProcess(
            folder, [*self._overrides, *overrides], node_id=number, zookeeper=self.zookeeper
        )

    def add(self, number: int, overrides: Sequence[str] = ()) -> BrokerProcess:
        """Add one broker, not started."""
        self.brokers[number] = self._broker(number, overrides)
        return self.brokers[number]

    def start(self, numbers: Iterable[int] | None = None) -> None:
        """Start these brokers, or all, in parallel."""
        chosen = [self.brokers[n] for n in (self.brokers if numbers is None else numbers)]
        for broker in chosen:
            broker.launch()
        for broker in chosen:
            broker.wait_ready()

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> dict[int, BrokerProcess]:
        return {number: broker for number, broker in self.brokers.items() if broker.is_running}

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.port)

    def logs(self) -> str:
        """The last lines of every broker, for a test that failed."""
        return "\n".join(broker.log_tail() for broker in self.brokers.values())

    # -- requests --------------------------------------------------------------

    def metadata(self, number: int) -> Any:
        """The metadata of one broker."""
        return ask(
            self.brokers[number].port,
            ApiKey.METADATA,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )

    def describe_controller(self, number: int) -> dict[str, Any] | None:
        """A broker's description of itself as controller; None if it is not the controller."""
        answer = ask(self.brokers[number].port, ApiKey.DESCRIBE_CONTROLLER)
        if answer.error_code is not ErrorCode.none:
            return None
        state: dict[str, Any] = json.loads(answer.state)
        return state

    def controller(self) -> int:
        """The controller, as soon as exactly one broker claims to be it."""
        found: list[int] = []

        def one() -> bool:
            found[:] = [n for n in self.running if self.describe_controller(n) is not None]
            return len(found) == 1

        until(one, "one controller")
        return found[0]

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader, as soon as there is one."""
        found: list[int] = []

        def led() -> bool:
            number = next(iter(self.running))
            for each in self.metadata(number).topics:
                if each.name == topic:
                    by_index = {p.partition_index: p for p in each.partitions}
                    found[:] = [by_index[partition].leader_id]
            return bool(found) and found[0] in self.running

        until(led, f"a leader of {topic}-{partition}")
        return found[0]

    # -- checks ----------------------------------------------------------------

    def wait_agreed(self, within_s: float = WITHIN_S) -> None:
        """Return when context, znodes, all brokers' metadata and disks agree."""
        self._wait_for_none(self.disagreements, "they do not agree:", within_s)

    def wait_settled(self, within_s: float = WITHIN_S) -> None:
        """Return when all agree, no operation is in progress, and running replicas are in sync."""
        self._wait_for_none(self.unrest, "it does not settle:", within_s)

    def _wait_for_none(
        self, look: Callable[[], list[str]], complaint: str, within_s: float
    ) -> None:
        last = ["nothing was looked at"]

        def nothing_wrong() -> bool:
            last[:] = look()
            return not last

        try:
            until(nothing_wrong, "agreement", within_s)
        except AssertionError:
            raise AssertionError("\n".join([complaint, *last])) from None

    def unrest(self) -> list[str]:
        return self._compare(settled=True)

    def disagreements(self) -> list[str]:
        """The differences between the controller's context, the znodes and the brokers."""
        return self._compare(settled=False)

    def _compare(self, settled: bool) -> list[str]:
        states = [state for n in self.running if (state := self.describe_controller(n))]
        if len(states) != 1:
            return [f"controllers: {[state['broker'] for state in states]}"]
        (state,) = states
        tree = znodes_if_whole(self.zookeeper)
        if tree is None:
            return ["the controller has just resigned, or a topic is just being made"]
        found = [*context_and_znodes(state, tree), *znodes_in_themselves(tree)]
        for number, broker in self.running.items():
            found += metadata_and_znodes(number, self.metadata(number), tree)
            found += disk_and_znodes(number, broker.log_folders, tree)
        return [*found, *unsettled(state, tree)] if settled else found
