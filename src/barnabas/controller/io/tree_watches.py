"""The controller's watches: each read of the tree sets a watch, each watch puts an event.

A watch fires once, so between two reads at most one event of a kind is queued, and no change
after a read is missed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import AssignedTopic, Assignment, LiveBroker, PartitionLeadership
from barnabas.controller.events import (
    BrokerModified,
    BrokersChanged,
    DeletionsChanged,
    Event,
    IsrNotified,
    LogDirNotified,
    PartitionsChanged,
    PreferredElectionNode,
    ReassignedIsrChanged,
    ReassignmentNode,
    TopicsChanged,
)
from barnabas.controller.io.store import Store
from barnabas.controller.io.tree_session import pipelined
from barnabas.znodes.layout import (
    TopicAssignment,
    decode_broker,
    decode_log_dir_event,
    decode_partition_state,
    decode_partitions,
    decode_reassignment,
    decode_topic,
)
from barnabas.znodes.paths import (
    BROKER_IDS,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    broker_path,
    partition_state_path,
    topic_path,
)
from barnabas.znodes.tree import MalformedZnode, Stat, Watch, WatchEvent

log = logging.getLogger("barnabas.controller")

T = TypeVar("T")
# Enough to amortise the round trip, few enough not to block the loop for long.
_READ_AT_ONCE: Final = 500


class RequestedReassignment(NamedTuple):
    """The content of /admin/reassign_partitions, and the node's version."""

    targets: dict[TopicPartition, tuple[BrokerId, ...]]
    version: int


class TreeWatches:
    """The watching reads of one controller epoch."""

    def __init__(self, store: Store, put: Callable[[Event], None]) -> None:
        self._store = store
        self._put = put
        self._watches: dict[tuple[type[Event], Event], Watch] = {}
        self._moving_watches: dict[TopicPartition, Watch] = {}
        self._moved: dict[TopicPartition, None] = {}
        self._ended = False

    def end(self) -> None:
        """Put no more events; watches that are still set are ignored when they fire."""
        self._ended = True

    def _on(self, event: Event) -> Watch:
        """The watch that puts this event; one object, as a tree sets the same watch once a node."""

        def watch(_: WatchEvent) -> None:
            if not self._ended:
                self._put(event)

        # The key has the type, too: NamedTuples of different types but equal fields are equal.
        return self._watches.setdefault((type(event), event), watch)

    # -- brokers -------------------------------------------------------------

    async def brokers(self) -> dict[BrokerId, LiveBroker]:
        """The registered brokers, sorted by id."""
        names = await self._store.children(BROKER_IDS, self._on(BrokersChanged()))
        # A stray node there must not leave the cluster without a controller.
        ids = sorted(BrokerId(int(name)) for name in names if name.isascii() and name.isdigit())
        found = await pipelined(self.broker(each) for each in ids)
        return {each.broker_id: each for each in found if each is not None}

    async def broker(self, broker_id: BrokerId) -> LiveBroker | None:
        path = broker_path(broker_id)
        node = await self._store.get(path, self._on(BrokerModified(broker_id)))
        if node is None:
            return None
        data, stat = node
        registration = decoded(lambda: decode_broker(broker_id, data))
        return None if registration is None else LiveBroker(broker_id, stat.czxid, registration)

    # -- topics --------------------------------------------------------------

    async def topic_names(self) -> list[str]:
        return await self._store.children(TOPICS, self._on(TopicsChanged()))

    async def topics(self, names: Sequence[str]) -> dict[str, AssignedTopic]:
        """The topics as their znodes describe them, without missing or malformed ones."""
        found = await pipelined(self._topic(name) for name in names)
        return {name: topic for name, topic in zip(names, found, strict=True) if topic is not None}

    async def _topic(self, name: str) -> AssignedTopic | None:
        node = await self._store.get(topic_path(name), self._on(PartitionsChanged(name)))
        if node is None:
            return None
        data, stat = node
        assignment = decoded(lambda: decode_topic(name, data))
        if assignment is None:
            return None
        return AssignedTopic(assignment.topic_id, assignments_of(assignment), stat.version)

    async def deletions(self) -> list[str]:
        return await self._store.children(DELETE_TOPICS, self._on(DeletionsChanged()))

    # -- partitions ----------------------------------------------------------

    async def states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionLeadership]:
        """The partitions' `state` nodes, without missing ones. Sets no watches."""
        wanted, leadership = list(partitions), dict[TopicPartition, PartitionLeadership]()
        for start in range(0, len(wanted), _READ_AT_ONCE):
            some = wanted[start : start + _READ_AT_ONCE]
            nodes = await self._store.get_many([partition_state_path(each) for each in some])
            leadership.update(_led(some, nodes))
            await asyncio.sleep(0)  # an embedded tree never suspends: let other tasks run
        return leadership

    async def moving_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionLeadership]:
        """As `states`, with a watch on each: for partitions under reassignment."""
        wanted = list(partitions)
        nodes = await pipelined(
            self._store.get(partition_state_path(each), self._on_moving(each)) for each in wanted
        )
        return dict(_led(wanted, nodes))

    def _on_moving(self, partition: TopicPartition) -> Watch:
        """The watch of a partition under reassignment: one event for all that changed by then."""

        def watch(_: WatchEvent) -> None:
            if not self._ended:
                is_first = not self._moved
                self._moved[partition] = None
                if is_first:
                    self._put(ReassignedIsrChanged())

        return self._moving_watches.setdefault(partition, watch)

    def take_moved(self) -> list[TopicPartition]:
        """The partitions under reassignment that changed since the last call."""
        moved, self._moved = list(self._moved), {}
        return moved

    # -- requests and notifications in znodes ----------------------------------

    async def reassignment(self) -> RequestedReassignment | None:
        """The content of /admin/reassign_partitions; None if it does not exist."""
        node = await self._store.find(REASSIGN_PARTITIONS, self._on(ReassignmentNode()))
        if node is None:
            return None
        data, stat = node
        return RequestedReassignment(decoded(lambda: decode_reassignment(data)) or {}, stat.version)

    async def preferred_election(self) -> list[TopicPartition] | None:
        """The content of /admin/preferred_replica_election; None if it does not exist."""
        path = PREFERRED_REPLICA_ELECTION
        node = await self._store.find(path, self._on(PreferredElectionNode()))
        if node is None:
            return None
        return decoded(lambda: decode_partitions(path, node[0])) or []

    async def isr_changes(self) -> tuple[list[str], list[TopicPartition]]:
        """The ISR change notifications, and the partitions that they name, each once."""
        paths, named = await self._notes(ISR_CHANGE_NOTIFICATION, IsrNotified(), decode_partitions)
        return paths, list(dict.fromkeys(each for some in named for each in some))

    async def log_dir_events(self) -> tuple[list[str], list[BrokerId]]:
        """The log directory failure notifications, and the brokers that sent them, each once."""
        paths, named = await self._notes(
            LOG_DIR_EVENT_NOTIFICATION, LogDirNotified(), decode_log_dir_event
        )
        return paths, list(dict.fromkeys(named))

    async def _notes(
        self, parent: str, event: Event, decode: Callable[[str, bytes], T]
    ) -> tuple[list[str], list[T]]:
        """The sequential nodes below `parent`, in order, and the values of the well-formed ones."""
        names = await self._store.children(parent, self._on(event))
        paths = [f"{parent}/{name}" for name in names]
        nodes = await pipelined(self._store.get(path) for path in paths)
        found = [
            decoded(partial(decode, path, node[0]))
            for path, node in zip(paths, nodes, strict=True)
            if node is not None
        ]
        return paths, [each for each in found if each is not None]


def assignments_of(topic: TopicAssignment) -> dict[int, Assignment]:
    """A topic's partitions as its znode describes them, sorted by number."""
    return {
        index: Assignment(replicas, topic.adding.get(index, ()), topic.removing.get(index, ()))
        for index, replicas in sorted(topic.partitions.items())
    }


def topic_assignment(topic: AssignedTopic) -> TopicAssignment:
    """The value to write to a topic's znode."""
    return TopicAssignment(
        partitions={index: each.replicas for index, each in topic.partitions.items()},
        topic_id=topic.topic_id,
        adding={index: each.adding for index, each in topic.partitions.items() if each.adding},
        removing={
            index: each.removing for index, each in topic.partitions.items() if each.removing
        },
    )


def _led(
    partitions: Sequence[TopicPartition], nodes: Sequence[tuple[bytes, Stat] | None]
) -> Iterator[tuple[TopicPartition, PartitionLeadership]]:
    """The partitions' `state` nodes, without missing or malformed ones."""
    for partition, node in zip(partitions, nodes, strict=True):
        if node is None:
            continue
        state = decoded(partial(decode_partition_state, partition, node[0]))
        if state is not None:
            yield partition, PartitionLeadership(state, node[1].version, node[1].mzxid)


def decoded(decode: Callable[[], T]) -> T | None:
    """None for a malformed znode: it must not leave the cluster without a controller."""
    try:
        return decode()
    except MalformedZnode as error:
        log.error("malformed znode ignored: %s", error)
        return None
