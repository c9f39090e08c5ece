"""The controller's store: reads of the tree, and writes that its controller epoch fences."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from barnabas.base.errors import BarnabasError
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import PartitionLeadership
from barnabas.controller.io.tree_session import TreeSession, pipelined
from barnabas.znodes.layout import (
    LeaderAndIsr,
    TopicAssignment,
    decode_config,
    decode_topic,
    encode_partition_state,
    encode_topic,
)
from barnabas.znodes.paths import (
    CONTROLLER_EPOCH,
    config_path,
    delete_topic_path,
    partition_path,
    partition_state_path,
    partitions_path,
    topic_entity,
    topic_path,
)
from barnabas.znodes.tree import (
    BadVersion,
    CheckVersion,
    CreateNode,
    DeleteNode,
    MalformedZnode,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    SetData,
    Stat,
    Watch,
)

log = logging.getLogger("barnabas.controller")

T = TypeVar("T")
# Nodes per transaction: a request stays far below ZooKeeper's limit of one megabyte.
_TOGETHER: Final = 100


class ControllerMoved(BarnabasError):
    """A newer controller was elected; nothing was written, and every later write fails too."""


class WrittenStates(NamedTuple):
    """The result of writing `state` nodes. A partition in neither field has no topic any more."""

    leadership: dict[TopicPartition, PartitionLeadership]
    # Written by somebody else since they were read: to be read and decided again.
    stale: list[TopicPartition]


class Store:
    """The reads and writes of one controller epoch; all are retried after a lost connection.

    Raises  SessionExpired, when the session in which the controller was elected has expired
            ControllerMoved, from every write, when /controller_epoch has another version
    """

    def __init__(self, session: TreeSession, epoch_version: int) -> None:
        self._session = session
        self._tree = session.tree
        self._fence = CheckVersion(CONTROLLER_EPOCH, epoch_version)

    # -- one node ------------------------------------------------------------

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._session.call(call)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        """A node's data and Stat; None, without a watch, if it does not exist."""
        try:
            return await self.call(lambda: self._tree.get(path, watch))
        except NoNode:
            return None

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Each node's data and Stat; None for one that does not exist."""
        return await self.call(lambda: self._tree.get_many(paths))

    async def find(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        """As `get`, but sets the watch also on a node that does not exist yet."""
        while True:
            found = await self.get(path, watch)
            if found is not None or not await self.call(lambda: self._tree.exists(path, watch)):
                return found

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children; [] if it does not exist."""
        try:
            return await self.call(lambda: self._tree.children(path, watch))
        except NoNode:
            return []

    async def write(self, *operations: Operation) -> list[Result]:
        """Commit the operations as one transaction, if our controller epoch is the newest."""
        try:
            fenced = (self._fence, *operations)
            return (await self.call(lambda: self._tree.multi(fenced)))[1:]
        except (BadVersion, NoNode) as error:
            if error.path == CONTROLLER_EPOCH:
                raise ControllerMoved(f"a newer controller was elected: {error}") from error
            raise

    async def make(self, path: str, data: bytes = b"") -> bool:
        """Create a node; False if it exists. Raises NoNode without its parent."""
        try:
            await self.write(CreateNode(path, data))
        except NodeExists:
            return False
        return True

    async def replace(self, path: str, data: bytes | None, version: int) -> bool:
        """Write a node or, without data, delete it; False if its version has changed."""
        operation = DeleteNode(path, version) if data is None else SetData(path, data, version)
        try:
            await self.write(operation)
        except (BadVersion, NoNode):
            return False
        return True

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete nodes without children; missing nodes count as deleted."""
        await self._each_together([DeleteNode(path) for path in paths])

    async def delete_below(self, path: str) -> None:
        """Delete a node and all its descendants, including those added meanwhile."""
        while True:
            try:
                return await self.delete(reversed(await self._with_descendants(path)))
            except NotEmpty:
                continue

    async def _with_descendants(self, path: str) -> list[str]:
        """Parents come first, so that deleting in reverse order succeeds."""
        level, found = [path], list[str]()
        while level:
            found += level
            below = await pipelined(self.children(each) for each in level)
            level = [
                f"{each}/{name}" for each, names in zip(level, below, strict=True) for name in names
            ]
        return found

    async def _each_together(self, deletes: Sequence[DeleteNode]) -> None:
        for some in _in_parts(deletes):
            try:
                await self.write(*some)
            except NoNode:
                for each in some:
                    await self._delete(each)

    async def _delete(self, delete: DeleteNode) -> None:
        try:
            await self.write(delete)
        except NoNode:
            return

    # -- the states of partitions --------------------------------------------

    async def create_states(self, creates: Mapping[TopicPartition, LeaderAndIsr]) -> WrittenStates:
        """Create the `state` nodes of new partitions, and their parents."""
        topics = dict.fromkeys(partition.topic for partition in creates)
        await pipelined(self._make_below_topic(topic) for topic in topics)
        return await self._write_states(
            {
                partition: (
                    CreateNode(partition_path(partition)),
                    CreateNode(partition_state_path(partition), encode_partition_state(state)),
                )
                for partition, state in creates.items()
            },
            {partition: PartitionLeadership(state, 0) for partition, state in creates.items()},
        )

    async def update_states(
        self, updates: Mapping[TopicPartition, tuple[LeaderAndIsr, int]]
    ) -> WrittenStates:
        """Write each `state` that still has the expected version."""
        return await self._write_states(
            {
                each: (SetData(partition_state_path(each), encode_partition_state(state), version),)
                for each, (state, version) in updates.items()
            },
            {
                each: PartitionLeadership(state, version + 1)
                for each, (state, version) in updates.items()
            },
        )

    async def _make_below_topic(self, topic: str) -> None:
        try:
            await self.make(partitions_path(topic))
        except NoNode:
            return

    async def _write_states(
        self,
        writes: Mapping[TopicPartition, tuple[Operation, ...]],
        leadership: Mapping[TopicPartition, PartitionLeadership],
    ) -> WrittenStates:
        written = WrittenStates({}, [])
        parts = _in_parts(list(writes))
        await pipelined(self._write_part(part, writes, leadership, written) for part in parts)
        return written

    async def _write_part(
        self,
        part: Sequence[TopicPartition],
        writes: Mapping[TopicPartition, tuple[Operation, ...]],
        leadership: Mapping[TopicPartition, PartitionLeadership],
        written: WrittenStates,
    ) -> None:
        """Write all in one transaction; if that fails, each in its own."""
        try:
            await self.write(*(operation for each in part for operation in writes[each]))
        except (BadVersion, NodeExists, NoNode):
            for each in part:
                await self._write_state(each, writes[each], leadership[each], written)
        else:
            written.leadership.update((each, leadership[each]) for each in part)

    async def _write_state(
        self,
        partition: TopicPartition,
        operations: tuple[Operation, ...],
        leadership: PartitionLeadership,
        written: WrittenStates,
    ) -> None:
        try:
            await self.write(*operations)
        except NoNode:
            return
        except NodeExists as error:
            if error.path != partition_state_path(partition):
                # Only its parent exists: another controller stopped half way.
                await self._write_state(partition, operations[1:], leadership, written)
            else:
                written.stale.append(partition)
        except BadVersion:
            written.stale.append(partition)
        else:
            written.leadership[partition] = leadership

    # -- topics --------------------------------------------------------------

    async def write_topic(self, topic: str, wanted: TopicAssignment, version: int) -> int:
        """Write a topic's assignment, keeping partitions that were added meanwhile.

        Returns the node's new version. Raises NoNode.
        """
        while True:
            try:
                (stat,) = await self.write(
                    SetData(topic_path(topic), encode_topic(wanted), version)
                )
            except BadVersion:
                wanted, version = await self._merged(topic, wanted)
            else:
                assert isinstance(stat, Stat)
                return stat.version

    async def _merged(self, topic: str, wanted: TopicAssignment) -> tuple[TopicAssignment, int]:
        data, stat = await self.call(lambda: self._tree.get(topic_path(topic)))
        found = decode_topic(topic, data)
        added = {n: to for n, to in found.partitions.items() if n not in wanted.partitions}
        merged = TopicAssignment(
            partitions={**wanted.partitions, **added},
            topic_id=found.topic_id or wanted.topic_id,
            adding=wanted.adding,
            removing=wanted.removing,
        )
        return merged, stat.version

    async def delete_topic(self, topic: str) -> None:
        """Delete all znodes of a topic, its deletion mark last."""
        await self.delete_below(topic_path(topic))
        await self.delete([config_path(topic_entity(topic))])
        await self.delete([delete_topic_path(topic)])

    async def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The config overrides of topics; {} for a topic whose node cannot be read."""
        return dict(zip(topics, await pipelined(map(self._topic_config, topics)), strict=True))

    async def _topic_config(self, topic: str) -> dict[str, str]:
        node = await self.get(config_path(topic_entity(topic)))
        try:
            return decode_config(topic_entity(topic), node[0]) if node else {}
        except MalformedZnode as error:
            log.error("malformed znode ignored: %s", error)
            return {}


def _in_parts(whole: Sequence[T]) -> list[Sequence[T]]:
    return [whole[start : start + _TOGETHER] for start in range(0, len(whole), _TOGETHER)]
