"""Brokers in processes of their own on a real ZooKeeper; killed, paused, started again."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.wire.apis import ApiKey
from barnabas.znodes import layout, paths
from tests.support.asking import ask
from tests.support.broker import BrokerProcess

# Short, so that a test need not wait long for the death of a broker to be noticed.
SESSION_TIMEOUT_MS: Final = 2_000
AGREED_WITHIN_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.05


def until(condition: Callable[[], object], what: str, within_s: float = AGREED_WITHIN_S) -> None:
    """Wait for a condition; an answer that does not come counts as not yet."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(LOOK_AGAIN_S)


class Cluster:
    """Some brokers, by id; a test ends them with `close`."""

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
        """One broker more; not started."""
        self.brokers[number] = self._broker(number, overrides)
        return self.brokers[number]

    def start(self, numbers: Iterable[int] | None = None) -> None:
        """Start these brokers, or all, side by side."""
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

    # -- asking --------------------------------------------------------------

    def metadata(self, number: int) -> Any:
        """What one broker tells its clients."""
        return ask(
            self.brokers[number].port,
            ApiKey.METADATA,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )

    def describe_controller(self, number: int) -> dict[str, Any] | None:
        """What a broker knows and does as controller; None if it is not the one."""
        answer = ask(self.brokers[number].port, ApiKey.DESCRIBE_CONTROLLER)
        if answer.error_code is not ErrorCode.none:
            return None
        state: dict[str, Any] = json.loads(answer.state)
        return state

    def controller(self) -> int:
        """The broker that is controller, as soon as exactly one says so."""
        found: list[int] = []

        def one() -> bool:
            found[:] = [n for n in self.running if self.describe_controller(n) is not None]
            return len(found) == 1

        until(one, "one controller")
        return found[0]

    def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads, as soon as somebody does."""
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

    # -- checking ------------------------------------------------------------

    def wait_agreed(self, within_s: float = AGREED_WITHIN_S) -> None:
        """Return when context, znodes and all brokers' metadata say the same."""
        last = ["nothing was looked at"]

        def agreed() -> bool:
            last[:] = self.disagreements()
            return not last

        try:
            until(agreed, "agreement", within_s)
        except AssertionError:
            raise AssertionError("\n".join(["they do not agree:", *last, self.logs()])) from None

    def disagreements(self) -> list[str]:
        """What the controller's context, the znodes and the metadata of the brokers differ in."""
        controllers = [n for n in self.running if self.describe_controller(n) is not None]
        if len(controllers) != 1:
            return [f"controllers: {controllers}"]
        state = self.describe_controller(controllers[0])
        if state is None:
            return ["the controller has just resigned"]
        znodes = read_znodes(self.zookeeper)
        found = _compare("context", _from_context(state), znodes["partitions"])
        if sorted(map(int, state["brokers"])) != znodes["brokers"]:
            found.append(f"brokers: context {sorted(state['brokers'])}, znodes {znodes['brokers']}")
        if state["epoch"] != znodes["epoch"]:
            found.append(f"epoch: context {state['epoch']}, znodes {znodes['epoch']}")
        if znodes["controller"] != controllers[0]:
            found.append(f"controller: {controllers[0]}, znode {znodes['controller']}")
        for number in self.running:
            metadata = self.metadata(number)
            found += _compare(f"broker {number}", _from_metadata(metadata), znodes["partitions"])
            if sorted(b.node_id for b in metadata.brokers) != znodes["brokers"]:
                found.append(f"broker {number} knows other brokers than the znodes")
            if metadata.controller_id != controllers[0]:
                found.append(f"broker {number} takes {metadata.controller_id} for the controller")
        return found


def _compare(who: str, told: dict[str, Any], znodes: dict[str, Any]) -> list[str]:
    return [
        f"{who}: {name} is {told.get(name)}, in the znodes {znodes.get(name)}"
        for name in sorted({*told, *znodes})
        if told.get(name) != znodes.get(name)
    ]


def _from_context(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (each["replicas"], each["leader"], each["leader_epoch"], sorted(each["isr"]))
        for name, each in state["partitions"].items()
    }


def _from_metadata(metadata: Any) -> dict[str, Any]:
    return {
        str(TopicPartition(topic.name, each.partition_index)): (
            list(each.replica_nodes),
            each.leader_id,
            each.leader_epoch,
            sorted(each.isr_nodes),
        )
        for topic in metadata.topics
        for each in topic.partitions
    }


def read_znodes(zookeeper: str) -> dict[str, Any]:
    """Brokers, controller, epoch and partitions as the tree has them."""
    client = KazooClient(hosts=zookeeper, timeout=10)
    client.start(timeout=10)
    try:
        controller, _ = client.get(paths.CONTROLLER)
        epoch, _ = client.get(paths.CONTROLLER_EPOCH)
        return {
            "brokers": sorted(map(int, client.get_children(paths.BROKER_IDS))),
            "controller": layout.decode_controller(controller).broker_id,
            "epoch": layout.decode_controller_epoch(epoch),
            "partitions": dict(_partitions(client)),
        }
    finally:
        client.stop()
        client.close()


def _partitions(client: KazooClient) -> Iterable[tuple[str, Any]]:
    for topic in client.get_children(paths.TOPICS):
        assigned = layout.decode_topic(topic, client.get(paths.topic_path(topic))[0])
        for index, replicas in assigned.partitions.items():
            partition = TopicPartition(topic, index)
            data, _ = client.get(paths.partition_state_path(partition))
            state = layout.decode_partition_state(partition, data)
            yield (
                str(partition),
                (list(replicas), state.leader, state.leader_epoch, sorted(state.isr)),
            )
