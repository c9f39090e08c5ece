"""A Kafka cluster in this process, for any client; and all that a test may do to it.

    with Cluster(brokers=3) as kafka:
        kafka.create_topic("orders", partitions=6)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        kafka.kill_unclean(kafka.leader_of("orders", 0))

Every method may be called from any one thread, returns when it is so, and raises `Misuse`, with
nothing changed, if it cannot be.
"""

import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from barnabas.base.errors import BarnabasError, ErrorCode, LawBroken
from barnabas.testing.broker_properties import broker_config
from barnabas.testing.broker_thread import Incarnation, World
from barnabas.testing.cluster_view import Observer
from barnabas.testing.cuttable_network import CLIENTS, COORDINATION, HOST, Network, Party
from barnabas.testing.failing_disk import Volume
from barnabas.testing.misuse import Misuse, find_api, find_error
from barnabas.testing.request_faults import Faults
from barnabas.testing.shared_tree import CUT, PAUSED, Hub
from barnabas.wire.apis import ApiKey

SESSION_TIMEOUT_MS: Final = 1_000
WAIT_S: Final = 30.0


class Cluster:
    """Some brokers, numbered from 0; a context manager, or `start` and `close`.

    `config` has Kafka's broker properties, for all of them. With a `folder` the data stays there
    and a later cluster goes on with it; without one it is temporary. A broker that cannot reach
    the others is given up after `session_timeout_ms`.
    """

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        if brokers < 1:
            raise Misuse(f"a cluster needs at least one broker, not {brokers}")
        self.brokers = tuple(range(brokers))
        self._config = dict(config or {})
        self._kept_folder = None if folder is None else Path(folder)
        self._session_timeout_ms = session_timeout_ms
        self._ports: dict[int, int] = {}
        self._volumes = {broker: Volume() for broker in self.brokers}
        self._lives: dict[int, Incarnation] = {}
        self._broken: list[str] = []
        self._is_open = False

    def start(self) -> Self:
        """Start all brokers, side by side."""
        if self._is_open:
            raise Misuse("the cluster is running already")
        self._folder = self._kept_folder or Path(tempfile.mkdtemp(prefix="barnabas-"))
        self._network = Network()
        tree = None if self._kept_folder is None else str(self._kept_folder / "coordination")
        self._hub = Hub(tree, self._session_timeout_ms / 1000)
        self._faults = Faults(lambda port: self._network.asking(port) == CLIENTS)
        self._observer = Observer(self._hub, self._lives)
        self._is_open = True
        try:
            self._ports = {broker: self._network.reserve(broker) for broker in self.brokers}
            for broker in self.brokers:
                self._launch(broker)
            for life in self._lives.values():
                life.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all brokers; with a temporary folder at once, and nothing of them is left.

        Raises  LawBroken, if a broker had stopped because of a bug of its own
        """
        if not self._is_open:
            return
        self._is_open = False
        is_kept = self._kept_folder is not None
        for life in self._lives.values():
            if life.is_alive and not life.is_paused:
                # All at once, if uncleanly: none shall see the others go, and complain.
                life.stop() if is_kept else life.pause()
        for broker, life in self._lives.items():
            life.kill()
            self._note_failure(broker)
        self._lives.clear()
        self._hub.close()
        self._network.close()
        if self._kept_folder is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._broken:
            raise LawBroken("; ".join(self._broken))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- what there is -------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: every broker, also those that do not run."""
        return ",".join(self.address(broker) for broker in self.brokers)

    @property
    def running(self) -> tuple[int, ...]:
        """The brokers that were not killed and have not failed; also paused ones."""
        return tuple(broker for broker, life in self._lives.items() if life.is_alive)

    @property
    def folder(self) -> Path:
        """Where the brokers keep their logs, each in a folder broker-<number>."""
        return self._folder

    def address(self, broker: int) -> str:
        """host:port of one broker, the same in all its lives."""
        self._known(broker)
        return f"{HOST}:{self._ports[broker]}"

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic, and wait until every broker knows it and every replica is in sync.

        It has as many replicas as `default.replication.factor` says, three or one for each broker.
        """
        self._observer.create_topic(
            self.address, topic, partitions, replication_factor, config or {}, WAIT_S
        )

    def controller(self, timeout: float = WAIT_S) -> int:
        """The broker that is controller, as soon as a running one is."""
        return self._observer.controller(timeout)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition, as soon as a running one does."""
        return self._observer.leader(topic, partition, None, WAIT_S)

    def wait_for_leader(
        self, topic: str, partition: int = 0, leader: int | None = None, timeout: float = WAIT_S
    ) -> int:
        """Wait until this broker, or any that runs, leads the partition; tells which one."""
        if leader is not None:
            self._known(leader)
        return self._observer.leader(topic, partition, leader, timeout)

    def wait_for_isr(
        self,
        topic: str,
        partition: int = 0,
        isr: Collection[int] | None = None,
        *,
        size: int | None = None,
        timeout: float = WAIT_S,
    ) -> frozenset[int]:
        """Wait until these brokers, or so many, are in sync; all replicas if neither is said."""
        if isr is not None and size is not None:
            raise Misuse("wait_for_isr: say which brokers, or how many, not both")
        for broker in isr or ():
            self._known(broker)
        return self._observer.in_sync(topic, partition, isr, size, timeout)

    # -- brokers come and go -------------------------------------------------

    def kill(self, broker: int) -> None:
        """End a broker as SIGTERM does: others lead when this returns, its log is closed."""
        life = self._alive(broker)
        if life.is_paused:
            raise Misuse(f"broker {broker} is paused, so it cannot stop by itself: resume it first")
        life.stop()

    def kill_unclean(self, broker: int, *, at_once: bool = False) -> None:
        """End a broker as SIGKILL does: connections break, nothing is flushed or closed.

        The others learn of it when its session expires; with `at_once` it has, on return.
        """
        self._alive(broker).kill()
        if at_once:
            self._hub.expire(broker)

    def restart(self, broker: int) -> None:
        """Start a broker again, on its port and its folder; one that runs is stopped before."""
        if self._lives[self._known(broker)].is_alive:
            self.kill(broker)
        self._lives[broker].wait_ended()
        self._note_failure(broker)
        self._launch(broker)
        try:
            self._lives[broker].wait_ready()
        except BarnabasError as error:
            raise Misuse(f"broker {broker} does not start: {error}") from error

    def pause(self, broker: int) -> None:
        """Let a broker do nothing, as SIGSTOP does; its session expires if that lasts."""
        life = self._alive(broker)
        if life.is_paused:
            raise Misuse(f"broker {broker} is paused already")
        life.pause()
        self._hub.lose(broker, PAUSED)

    def resume(self, broker: int) -> None:
        """Let a paused broker go on, whatever happened meanwhile."""
        life = self._alive(broker)
        if not life.is_paused:
            raise Misuse(f"broker {broker} is not paused")
        self._hub.find(broker, PAUSED)
        life.resume()

    def expire_session(self, broker: int) -> None:
        """Let the others believe that a broker is gone, until it registers again."""
        self._alive(broker)
        self._hub.expire(broker)

    # -- the network ---------------------------------------------------------

    def partition(self, one: Party, other: Party) -> None:
        """Break and refuse connections between two brokers, or of a broker with "clients" or with
        "coordination"; cut off from the latter, its session expires if that lasts."""
        broker, other = self._parties(one, other)
        self._network.cut(broker, other)
        if other == COORDINATION:
            self._hub.lose(broker, CUT)
        for party, opposite in ((broker, other), (other, broker)):
            if party in self._lives and isinstance(party, int):
                self._lives[party].drop(opposite)

    def heal(self) -> None:
        """Let everybody reach everybody again."""
        for pair in self._network.heal():
            for broker in pair:
                if COORDINATION in pair and isinstance(broker, int):
                    self._hub.find(broker, CUT)

    # -- the disk ------------------------------------------------------------

    def fill_disk(self, broker: int) -> None:
        """Let every write of a broker fail from now on: it stops when it notices, as Kafka's."""
        self._volumes[self._known(broker)].is_full = True

    def empty_disk(self, broker: int) -> None:
        """Give room again; a broker that stopped meanwhile needs a `restart`."""
        self._volumes[self._known(broker)].is_full = False

    # -- requests ------------------------------------------------------------

    def delay(self, api: str | ApiKey, ms: float, broker: int | None = None) -> None:
        """Let clients wait so long for every answer of an API, which takes effect as ever; 0 ends
        it."""
        if ms < 0:
            raise Misuse(f"delay: {ms:g} ms is no time to wait")
        self._faults.delay(find_api(api), ms / 1000, self._known_or_any(broker))

    def fail_next(
        self,
        api: str | ApiKey,
        error: str | int | ErrorCode,
        times: int = 1,
        broker: int | None = None,
    ) -> None:
        """Answer the next requests of an API with an error of Kafka's, and do nothing else."""
        if times < 1:
            raise Misuse(f"fail_next: {times} times is never")
        self._faults.fail_next(find_api(api), find_error(error), times, self._known_or_any(broker))

    def serve_normally(self) -> None:
        """Take back every `delay`, and every `fail_next` that has met no request yet."""
        self._faults.clear()

    # -- inside --------------------------------------------------------------

    def _launch(self, broker: int) -> None:
        config = broker_config(
            broker,
            len(self.brokers),
            self._ports[broker],
            self._folder / f"broker-{broker}",
            self._session_timeout_ms,
            self._config,
        )
        world = World(self._hub, self._network, self._faults)
        self._lives[broker] = life = Incarnation(broker, config, self._volumes[broker], world)
        life.launch()

    def _known(self, broker: int) -> int:
        if not self._is_open:
            raise Misuse("the cluster is not running: use it in a with block, or call start")
        if broker not in self.brokers:
            raise Misuse(f"there is no broker {broker!r}, only 0 to {self.brokers[-1]}")
        return broker

    def _known_or_any(self, broker: int | None) -> int | None:
        return None if broker is None else self._known(broker)

    def _alive(self, broker: int) -> Incarnation:
        life = self._lives[self._known(broker)]
        if not life.is_alive:
            how = f"has failed ({life.failure})" if life.failure else "was killed"
            raise Misuse(f"broker {broker} {how}; restart it first")
        return life

    def _parties(self, one: Party, other: Party) -> tuple[int, Party]:
        if isinstance(one, str):
            one, other = other, one
        if isinstance(one, str):
            raise Misuse(f"partition: one side must be a broker, not {other!r} and {one!r}")
        if isinstance(other, str):
            if other not in (CLIENTS, COORDINATION):
                raise Misuse(
                    f'partition: {other!r} is neither a broker, "clients", nor "coordination"'
                )
        elif self._known(other) == one:
            raise Misuse(f"partition: broker {one} cannot be cut off from itself")
        return self._known(one), other

    def _note_failure(self, broker: int) -> None:
        failure = self._lives[broker].failure
        if isinstance(failure, LawBroken):
            self._broken.append(f"broker {broker} stopped: {failure}")
