"""A client's view of the cluster: brokers, controller, topics and their leaders.

It may be out of date: a broker that says so, or does not answer, is the reason to refresh it.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.retries import Address, Ask, RetriableError, Retry, Steps, retried
from barnabas.wire.apis import ApiKey

NO_TOPIC_ID: Final = uuid.UUID(int=0)


class NoBrokerReached(PeerGone):
    """No broker answers; `reasons` has one for each that was tried."""

    def __init__(self, reasons: Sequence[PeerGone]) -> None:
        super().__init__(str(reasons[-1]) if reasons else "no brokers are named")
        self.reasons = reasons


class Leader(NamedTuple):
    """A partition's leader, and its epoch."""

    broker: int
    host: str
    port: int
    epoch: int

    @property
    def address(self) -> Address:
        return self.host, self.port


class PartitionInfo(NamedTuple):
    """One partition, as a broker described it."""

    leader: Leader | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicInfo(NamedTuple):
    """One topic, as a broker described it. `topic_id` is zero in clusters without topic ids."""

    name: str
    topic_id: uuid.UUID
    partitions: Mapping[int, PartitionInfo]
    is_internal: bool = False
    error: ErrorCode = ErrorCode.none

    def leader(self, partition: int) -> Leader | None:
        """None if the partition does not exist or has no leader."""
        found = self.partitions.get(partition)
        return None if found is None else found.leader


def fields(**given: object) -> Any:
    """A message, or a part of one; fields that are not given get Kafka's default."""
    return SimpleNamespace(**given)


class Metadata:
    """The brokers and leaders that one client knows, and the requests that need to know them."""

    def __init__(self, bootstrap: Iterable[Address]) -> None:
        self.bootstrap = tuple(bootstrap)
        self.brokers: dict[int, Address] = {}
        self.controller = -1
        self.topics: dict[str, TopicInfo] = {}
        self._reached: Address | None = None
        # The newest leader epoch of each partition that any broker reported.
        self._newest: dict[tuple[str, uuid.UUID, int], PartitionInfo] = {}

    # -- requests ------------------------------------------------------------

    def candidates(self) -> Iterable[Address]:
        """The brokers to ask for what any of them knows, in order."""
        reached = () if self._reached is None else (self._reached,)
        return dict.fromkeys((*reached, *self.bootstrap, *self.brokers.values()))

    def ask_any(
        self, key: ApiKey, message: Any, is_of_use: Callable[[Any], bool] = lambda _: True
    ) -> Steps[Any]:
        """The response of the first broker that answers, if it is of use.

        Raises  NoBrokerReached, if none answers; RetriableError, if no answer is of use
        """
        reasons = []
        has_answered = False
        for address in self.candidates():
            try:
                response = yield Ask(address, key, message)
            except PeerGone as gone:
                reasons.append(gone)
                continue
            has_answered = True
            if is_of_use(response):
                self._reached = address
                return response
        self._reached = None
        if has_answered:
            raise RetriableError("the brokers that answer do not know the cluster yet")
        raise NoBrokerReached(reasons)

    def ask(self, broker: int, key: ApiKey, message: Any) -> Steps[Any]:
        """The response of this broker. Raises PeerGone, also if it is not known."""
        response = yield Ask(self.address(broker), key, message)
        return response

    def ask_controller(self, key: ApiKey, message: Any, retry: Retry) -> Steps[Any]:
        """The response of the controller, which may move meanwhile.

        Raises  PeerGone or RetriableError, after the last attempt; NoBrokerReached at once
        """

        def attempt() -> Steps[Any]:
            yield from self.refresh(())
            if self.controller < 0:
                raise RetriableError("there is no controller")
            response = yield from self.ask(self.controller, key, message)
            if getattr(response, "error_code", None) is ErrorCode.not_controller:
                raise RetriableError(f"broker {self.controller} is no longer the controller")
            return response

        return retried(attempt, retry, fatal=(NoBrokerReached,))

    def refresh(
        self, names: Iterable[str] | None = None, *, create: bool = False
    ) -> Steps[dict[str, TopicInfo]]:
        """These topics, or all, of those that exist; with `create`, where brokers allow it, all.

        Topics that were not asked for stay as they were known. A broker that has just started
        knows no brokers: what it says about topics is of no use.

        Raises  NoBrokerReached; RetriableError, if all brokers that answer have just started
        """
        topics = None if names is None else tuple(fields(name=name) for name in names)
        request = fields(topics=topics, allow_auto_topic_creation=create)
        response = yield from self.ask_any(
            ApiKey.METADATA, request, lambda response: bool(response.brokers)
        )
        self.brokers = {each.node_id: (each.host, each.port) for each in response.brokers}
        self.controller = response.controller_id
        found = {each.name: self._topic(each) for each in response.topics}
        if names is None:
            self.topics = found
        else:
            self.topics.update(found)
        return found

    # -- what is known -------------------------------------------------------

    def address(self, broker: int) -> Address:
        """Raises  PeerGone, if the broker is not known"""
        if broker not in self.brokers:
            raise PeerGone(f"broker {broker} is not in the cluster")
        return self.brokers[broker]

    def leader(self, topic: str, partition: int) -> Leader | None:
        """The leader that was known at the last refresh."""
        found = self.topics.get(topic)
        return None if found is None else found.leader(partition)

    def _topic(self, topic: Any) -> TopicInfo:
        topic_id = topic.topic_id or NO_TOPIC_ID
        partitions = {
            each.partition_index: self._newer(topic.name, topic_id, each)
            for each in topic.partitions
        }
        return TopicInfo(topic.name, topic_id, partitions, topic.is_internal, topic.error_code)

    def _newer(self, name: str, topic_id: uuid.UUID, partition: Any) -> PartitionInfo:
        """A broker that is cut off reports past leaders: the newest epoch known wins."""
        leader = None
        if partition.leader_id in self.brokers:
            address = self.brokers[partition.leader_id]
            leader = Leader(partition.leader_id, *address, partition.leader_epoch)
        reported = PartitionInfo(leader, tuple(partition.replica_nodes), tuple(partition.isr_nodes))
        if leader is None:
            return reported
        key = (name, topic_id, partition.partition_index)
        known = self._newest.get(key)
        if known is None or known.leader is None or known.leader.epoch <= leader.epoch:
            self._newest[key] = known = reported
        return known
