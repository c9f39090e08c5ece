"""A test's view of its cluster: create topics, wait for leaders and in-sync replicas.

Leaders and ISRs are read from the tree, and awaited by watches; the brokers' metadata is read from
the brokers themselves.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.client.connection import AsyncConnection
from barnabas.client.security import SecurityContext
from barnabas.server.broker import Broker
from barnabas.testing.broker_thread import BrokerThread
from barnabas.testing.misuse import Misuse, NotInTime, check_topic
from barnabas.testing.shared_tree import SharedTree
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import adapt, request_type
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import NoNode, WatchEvent

T = TypeVar("T")

LOOK_AGAIN_S: Final = 0.01
_ANSWER_WITHIN: Final = timedelta(seconds=20)
_PASSED_ON: Final = ErrorCode.not_controller


class ClusterView:
    """Reads the tree and the running brokers; for the test's thread."""

    def __init__(
        self, tree: SharedTree, threads: Mapping[int, BrokerThread], security: SecurityContext
    ) -> None:
        self._tree = tree
        self._security = security
        self._threads = threads

    # -- waiting -------------------------------------------------------------

    def controller(self, timeout_s: float) -> int:
        """Wait until a running broker is controller. Raises NotInTime."""

        def led(data: bytes | None) -> int | None:
            found = None if data is None else layout.decode_controller(data).broker_id
            return found if self._runs(found) else None

        return self._wait(paths.CONTROLLER, led, timeout_s, "a controller", str)

    def leader(self, topic: str, partition: int, wanted: int | None, timeout_s: float) -> int:
        """Wait until the wanted broker, or any running one, leads a partition; return the leader.

        Raises  Misuse, NotInTime
        """

        def led(data: bytes | None) -> int | None:
            found = _state(of, data).leader if data is not None else None
            return found if self._runs(found) and wanted in (None, found) else None

        of = self._checked(topic, partition)
        what = f"{of} to be led by " + ("a running broker" if wanted is None else f"{wanted}")
        return self._wait(
            paths.partition_state_path(of), led, timeout_s, what, lambda data: _shown(of, data)
        )

    def in_sync(
        self,
        topic: str,
        partition: int,
        wanted: Collection[int] | None,
        size: int | None,
        timeout_s: float,
    ) -> frozenset[int]:
        """Wait until the ISR has these brokers, or `size` of them, or all replicas; return it.

        Raises  Misuse, NotInTime
        """

        def agreed(data: bytes | None) -> frozenset[int] | None:
            found = frozenset[int](_state(of, data).isr if data is not None else ())
            enough = len(found) == size if size is not None else found == frozenset(expected)
            return found if enough else None

        of = self._checked(topic, partition)
        expected = self._tree.run(self._replicas(of)) if wanted is None else wanted
        what = f"{of} to have " + (f"{size}" if size is not None else f"{sorted(expected)}")
        return self._wait(
            paths.partition_state_path(of),
            agreed,
            timeout_s,
            f"{what} in sync",
            lambda data: _shown(of, data),
        )

    def _wait(
        self,
        path: str,
        found: Callable[[bytes | None], T | None],
        timeout_s: float,
        what: str,
        shown: Callable[[bytes], str],
    ) -> T:
        last: list[bytes] = []

        async def look() -> T:
            changed = asyncio.Event()

            def on_change(_: WatchEvent) -> None:
                changed.set()

            while True:
                changed.clear()
                data = None
                if await self._tree.own.exists(path, on_change) is not None:
                    data, _ = await self._tree.own.get(path)
                    last[:] = [data]
                if (answer := found(data)) is not None:
                    return answer
                await changed.wait()

        try:
            return self._tree.run(look(), timeout_s)
        except NotInTime:
            how = shown(last[0]) if last else "it does not exist"
            raise NotInTime(f"timed out after {timeout_s:g} s waiting for {what}: {how}") from None

    def _runs(self, broker: int | None) -> bool:
        return broker is not None and broker in self._threads and self._threads[broker].is_alive

    # -- topics --------------------------------------------------------------

    def create_topic(
        self,
        address_of: Callable[[int], str],
        topic: str,
        partitions: int,
        replication_factor: int | None,
        config: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        """Create a topic and wait until every broker knows it.

        Raises  Misuse if the cluster refuses; NotInTime if a broker does not receive it
        """
        wanted = SimpleNamespace(
            name=topic,
            num_partitions=partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            assignments=(),
            configs=tuple(SimpleNamespace(name=k, value=str(v)) for k, v in config.items()),
        )
        while self._refusal(address_of(self.controller(timeout_s)), wanted) is _PASSED_ON:
            continue
        for partition in range(partitions):
            self.in_sync(topic, partition, None, None, timeout_s)
            self.leader(topic, partition, None, timeout_s)

        def knows(broker: Broker) -> bool:
            image = broker.metadata.topic(topic)
            return image is not None and len(image.partitions) == partitions

        try:
            self._tree.run(self._told(knows), timeout_s)
        except NotInTime:
            raise NotInTime(f"topic {topic} was created, but not all brokers know it") from None

    def _refusal(self, address: str, wanted: Any) -> ErrorCode:
        host, _, port = address.rpartition(":")
        return self._tree.run(_create(host, int(port), wanted, self._security))

    async def _told(self, knows: Callable[[Broker], bool]) -> None:
        for thread in list(self._threads.values()):
            while thread.is_alive and not thread.is_paused:
                if await asyncio.wrap_future(thread.ask(knows)):
                    break
                await asyncio.sleep(LOOK_AGAIN_S)

    def _checked(self, topic: str, partition: int) -> TopicPartition:
        check_topic(topic, partition, self._tree.run(self._topics()))
        return TopicPartition(topic, partition)

    async def _topics(self) -> dict[str, int]:
        found = {}
        for topic in await self._tree.own.children(paths.TOPICS):
            try:
                data, _ = await self._tree.own.get(paths.topic_path(topic))
            except NoNode:
                continue
            found[topic] = len(layout.decode_topic(topic, data).partitions)
        return found

    async def _replicas(self, of: TopicPartition) -> tuple[int, ...]:
        data, _ = await self._tree.own.get(paths.topic_path(of.topic))
        return layout.decode_topic(of.topic, data).partitions[of.partition]


def _state(of: TopicPartition, data: bytes) -> layout.LeaderAndIsr:
    return layout.decode_partition_state(of, data)


def _shown(of: TopicPartition, data: bytes) -> str:
    state = _state(of, data)
    return f"leader {state.leader}, ISR {sorted(state.isr)}"


async def _create(host: str, port: int, topic: Any, security: SecurityContext) -> ErrorCode:
    """Send CreateTopics; return NONE, or NOT_CONTROLLER if the controller moved.

    Raises  Misuse for any other error
    """
    version = APIS[ApiKey.CREATE_TOPICS].highest
    wanted = SimpleNamespace(topics=(topic,), timeout=_ANSWER_WITHIN)
    request = adapt(wanted, request_type(ApiKey.CREATE_TOPICS, version))
    try:
        peer = await AsyncConnection.connect(
            host, port, client_id="barnabas-testing", timeout_s=10, security=security
        )
        try:
            answer = await peer.request(ApiKey.CREATE_TOPICS, version, request, timeout_s=30)
        finally:
            peer.close()
    except PeerGone as gone:
        raise Misuse(f"could not create topic {topic.name}: {gone}") from None
    code: ErrorCode = answer.topics[0].error_code
    if code not in (ErrorCode.none, _PASSED_ON):
        why = answer.topics[0].error_message or code.name.upper()
        raise Misuse(f"cannot create topic {topic.name}: {why}")
    return code
