"""A Kafka cluster in the test's process, for any client, with fault injection.

    with Cluster(brokers=3) as kafka:
        kafka.create_topic("orders", partitions=6)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        kafka.kill_unclean(kafka.leader_of("orders", 0))

Methods may be called from any thread, one at a time. Each returns when it has taken effect, and
raises `Misuse`, with nothing changed, if it is not possible.
"""

import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from barnabas.base.errors import BarnabasError, ErrorCode, LawBroken
from barnabas.base.ids import TopicPartition
from barnabas.client.security import SecurityContext
from barnabas.testing.broker_properties import broker_config
from barnabas.testing.broker_thread import BrokerThread, ClusterParts
from barnabas.testing.cluster_security import ClusterSecurity
from barnabas.testing.cluster_view import ClusterView
from barnabas.testing.cuttable_network import CLIENTS, COORDINATION, HOST, CuttableNetwork, Party
from barnabas.testing.failing_disk import Volume
from barnabas.testing.misuse import Misuse, find_api, find_error
from barnabas.testing.request_faults import RequestFaults
from barnabas.testing.shared_tree import CUT, PAUSED, SharedTree
from barnabas.testing.transaction_faults import check_state, hang, wait_for_state
from barnabas.wire.apis import ApiKey

SESSION_TIMEOUT_MS: Final = 1_000
WAIT_S: Final = 30.0


class Cluster:
    """A cluster of brokers, numbered from 0; a context manager, or `start` and `close`.

    `config` has Kafka's broker properties, for all brokers. With a `folder` the data stays there
    and a later cluster can use it; without one it is temporary. A broker that loses its
    connection to the tree is declared dead after `session_timeout_ms`. A `secure` cluster has TLS
    and SASL: `client_properties` let the test in.
    """

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        secure: bool = False,
    ) -> None:
        if brokers < 1:
            raise Misuse(f"a cluster needs at least one broker, not {brokers}")
        self.brokers = tuple(range(brokers))
        self._config = dict(config or {})
        self._kept_folder = None if folder is None else Path(folder)
        self._session_timeout_ms = session_timeout_ms
        self._is_secure = secure
        self._security = ClusterSecurity()
        self._ports: dict[int, int] = {}
        self._volumes = {broker: Volume() for broker in self.brokers}
        self._threads: dict[int, BrokerThread] = {}
        self._broken: list[str] = []
        self._is_open = False

    def start(self) -> Self:
        """Start all brokers in parallel."""
        if self._is_open:
            raise Misuse("the cluster is running already")
        self._folder = self._kept_folder or Path(tempfile.mkdtemp(prefix="barnabas-"))
        if self._is_secure:
            self._security = ClusterSecurity.make(self._folder / "secure")
        self._network = CuttableNetwork()
        tree = None if self._kept_folder is None else str(self._kept_folder / "coordination")
        self._tree = SharedTree(tree, self._session_timeout_ms / 1000)
        self._faults = RequestFaults(lambda port: self._network.owner_of(port) == CLIENTS)
        self._view = ClusterView(
            self._tree, self._threads, SecurityContext.of(self._security.of_clients)
        )
        self._is_open = True
        try:
            self._ports = {broker: self._network.reserve(broker) for broker in self.brokers}
            for broker in self.brokers:
                self._launch(broker)
            for thread in self._threads.values():
                thread.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop all brokers; with a temporary directory kill them, and delete it.

        Raises  LawBroken if a broker had stopped because of a bug
        """
        if not self._is_open:
            return
        self._is_open = False
        is_kept = self._kept_folder is not None
        for thread in self._threads.values():
            if thread.is_alive and not thread.is_paused:
                # Paused before they are killed, so that no broker logs the others' end.
                thread.stop() if is_kept else thread.pause()
        for broker, thread in self._threads.items():
            thread.kill()
            self._note_failure(broker)
        self._threads.clear()
        self._tree.close()
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

    # -- the cluster -----------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap.servers of clients: every broker, running or not."""
        return ",".join(self.address(broker) for broker in self.brokers)

    @property
    def client_properties(self) -> dict[str, str]:
        """The properties of a client: its bootstrap.servers, and the login of a secure cluster.

        The names are librdkafka's; `barnabas.client` reads them too.
        """
        return {"bootstrap.servers": self.bootstrap_servers, **self._security.of_clients}

    @property
    def running(self) -> tuple[int, ...]:
        """The brokers that were not killed and have not failed, including paused ones."""
        return tuple(broker for broker, thread in self._threads.items() if thread.is_alive)

    @property
    def folder(self) -> Path:
        """The parent of the log directories, broker-<number> for each broker."""
        return self._folder

    def address(self, broker: int) -> str:
        """host:port of one broker, the same after a restart."""
        self._known(broker)
        return f"{HOST}:{self._ports[broker]}"

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until every broker knows it and every replica is in sync.

        The default replication factor is three, or the number of brokers if there are fewer.
        """
        self._view.create_topic(
            self.address, topic, partitions, replication_factor, config or {}, WAIT_S
        )

    def controller(self, timeout: float = WAIT_S) -> int:
        """The broker that is controller; waits until a running one is."""
        return self._view.controller(timeout)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition; waits until a running broker leads it."""
        return self._view.leader(topic, partition, None, WAIT_S)

    def wait_for_leader(
        self, topic: str, partition: int = 0, leader: int | None = None, timeout: float = WAIT_S
    ) -> int:
        """Wait until this broker, or any running one, leads the partition; return the leader."""
        if leader is not None:
            self._known(leader)
        return self._view.leader(topic, partition, leader, timeout)

    def wait_for_isr(
        self,
        topic: str,
        partition: int = 0,
        isr: Collection[int] | None = None,
        *,
        size: int | None = None,
        timeout: float = WAIT_S,
    ) -> frozenset[int]:
        """Wait until the ISR has these brokers, or `size` of them; by default all replicas."""
        if isr is not None and size is not None:
            raise Misuse("wait_for_isr: give isr or size, not both")
        for broker in isr or ():
            self._known(broker)
        return self._view.in_sync(topic, partition, isr, size, timeout)

    # -- brokers ---------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """Stop a broker as SIGTERM does: on return others lead, and its log is closed."""
        thread = self._alive(broker)
        if thread.is_paused:
            raise Misuse(f"broker {broker} is paused and cannot stop: resume it first")
        thread.stop()

    def kill_unclean(self, broker: int, *, at_once: bool = True) -> None:
        """End a broker as SIGKILL does: connections break, nothing is flushed or closed.

        On return its session is closed, as by the supervisor of `barnabas cluster`. Without
        `at_once` the others notice when the session expires, as in Apache Kafka.
        """
        self._alive(broker).kill()
        if at_once:
            self._tree.expire(broker)

    def restart(self, broker: int) -> None:
        """Start a broker again, on its port and log directory; stop it first if it runs."""
        if self._threads[self._known(broker)].is_alive:
            self.kill(broker)
        self._threads[broker].wait_ended()
        self._note_failure(broker)
        self._launch(broker)
        try:
            self._threads[broker].wait_ready()
        except BarnabasError as error:
            raise Misuse(f"broker {broker} failed to start: {error}") from error

    def pause(self, broker: int) -> None:
        """Freeze a broker as SIGSTOP does; its session expires after the timeout."""
        thread = self._alive(broker)
        if thread.is_paused:
            raise Misuse(f"broker {broker} is paused already")
        thread.pause()
        self._tree.disconnect(broker, PAUSED)

    def resume(self, broker: int) -> None:
        """Continue a paused broker."""
        thread = self._alive(broker)
        if not thread.is_paused:
            raise Misuse(f"broker {broker} is not paused")
        self._tree.reconnect(broker, PAUSED)
        thread.resume()

    def expire_session(self, broker: int) -> None:
        """Expire a broker's session: it is dead for the others until it registers again."""
        self._alive(broker)
        self._tree.expire(broker)

    # -- the network ---------------------------------------------------------

    def partition(self, one: Party, other: Party) -> None:
        """Reset and refuse connections between two brokers, or of a broker to "clients" or to
        "coordination"; without the latter its session expires after the timeout."""
        broker, other = self._parties(one, other)
        self._network.cut(broker, other)
        if other == COORDINATION:
            self._tree.disconnect(broker, CUT)
        for party, opposite in ((broker, other), (other, broker)):
            if party in self._threads and isinstance(party, int):
                self._threads[party].drop(opposite)

    def heal(self) -> None:
        """End all partitions."""
        for pair in self._network.heal():
            for broker in pair:
                if COORDINATION in pair and isinstance(broker, int):
                    self._tree.reconnect(broker, CUT)

    # -- the disk ------------------------------------------------------------

    def fill_disk(self, broker: int) -> None:
        """Make every write of a broker fail: it stops at its next write, as Kafka does."""
        self._volumes[self._known(broker)].is_full = True

    def empty_disk(self, broker: int) -> None:
        """Free the disk; a broker that stopped meanwhile needs a `restart`."""
        self._volumes[self._known(broker)].is_full = False

    # -- requests ------------------------------------------------------------

    def delay(self, api: str | ApiKey, ms: float, broker: int | None = None) -> None:
        """Delay every response of an API to clients; requests take effect at once. 0 ends it."""
        if ms < 0:
            raise Misuse(f"delay: {ms:g} ms is negative")
        self._faults.delay(find_api(api), ms / 1000, self._known_or_any(broker))

    def fail_next(
        self,
        api: str | ApiKey,
        error: str | int | ErrorCode,
        times: int = 1,
        broker: int | None = None,
    ) -> None:
        """Respond to the next requests of an API with an error, without serving them."""
        if times < 1:
            raise Misuse(f"fail_next: times must be at least 1, not {times}")
        self._faults.fail_next(find_api(api), find_error(error), times, self._known_or_any(broker))

    # -- transactions ----------------------------------------------------------

    def delay_markers(self, ms: float, broker: int | None = None) -> None:
        """Delay the markers that end transactions, on their way to a broker. 0 ends it."""
        if ms < 0:
            raise Misuse(f"delay_markers: {ms:g} ms is negative")
        self._faults.delay_markers(ms / 1000, self._known_or_any(broker))

    def hang_transaction(self, topic: str, partition: int = 0) -> int:
        """Write a record of a transaction that no coordinator knows; return its offset.

        Readers with read_committed stop there, until `barnabas txns abort` ends it.
        """
        leader = self.leader_of(topic, partition)
        return hang(self._alive(leader), TopicPartition(topic, partition))

    def kill_coordinator(
        self, transactional_id: str, state: str = "Ongoing", timeout: float = WAIT_S
    ) -> int:
        """Kill the coordinator as by SIGKILL once the id is in this state; return its number.

        Another thread runs the transaction. Markers are held until then, so that the states
        PrepareCommit and PrepareAbort last; a transaction that is to complete needs them.

        Raises  NotInTime, nothing is killed
        """
        check_state(state)
        self._faults.delay_markers(0 if state.startswith("Complete") else timeout, None)
        try:
            address = wait_for_state(self.bootstrap_servers, transactional_id, state, timeout)
            (coordinator,) = (n for n in self.running if self.address(n) == address)
            self.kill_unclean(coordinator)
        finally:
            self._faults.delay_markers(0, None)
        return coordinator

    def serve_normally(self) -> None:
        """Remove every `delay`, and every `fail_next` that is still pending."""
        self._faults.clear()

    # -- internal --------------------------------------------------------------

    def _launch(self, broker: int) -> None:
        config = broker_config(
            broker,
            len(self.brokers),
            self._ports[broker],
            self._folder / f"broker-{broker}",
            self._session_timeout_ms,
            self._config,
            self._security,
        )
        parts = ClusterParts(self._tree, self._network, self._faults)
        self._threads[broker] = thread = BrokerThread(broker, config, self._volumes[broker], parts)
        thread.launch()

    def _known(self, broker: int) -> int:
        if not self._is_open:
            raise Misuse("the cluster is not running: use it in a with block, or call start")
        if broker not in self.brokers:
            raise Misuse(f"there is no broker {broker!r}, only 0 to {self.brokers[-1]}")
        return broker

    def _known_or_any(self, broker: int | None) -> int | None:
        return None if broker is None else self._known(broker)

    def _alive(self, broker: int) -> BrokerThread:
        thread = self._threads[self._known(broker)]
        if not thread.is_alive:
            how = f"has failed ({thread.failure})" if thread.failure else "was killed"
            raise Misuse(f"broker {broker} {how}; restart it first")
        return thread

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
        failure = self._threads[broker].failure
        if isinstance(failure, LawBroken):
            self._broken.append(f"broker {broker} stopped: {failure}")
