"""The tree as a controller writes it: every write holds only while its epoch is the newest."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from barnabas.base.errors import BarnabasError
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Led
from barnabas.controller.io.tree_session import Session, pipelined
from barnabas.znodes.layout import (
    PartitionState,
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
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    MalformedZnode,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    Set,
    Stat,
    Watch,
)

log = logging.getLogger("barnabas.controller")

T = TypeVar("T")
# How many nodes one transaction changes: a request far below ZooKeeper's limit of a megabyte.
_TOGETHER: Final = 100


class Deposed(BarnabasError):
    """Another controller was elected since; nothing was written, and nothing can be any more."""


class Written(NamedTuple):
    """What became of some `state` nodes. One that is in neither is gone with its topic."""

    led: dict[TopicPartition, Led]
    # Written by another since they were read: to be read and decided again.
    stale: list[TopicPartition]


class Store:
    """Reads and writes of one controller epoch. All of them wait out a lost connection.

    Raises  SessionExpired, when the session is over in which the controller was elected
            Deposed, from every write, when /controller_epoch has another version
    """

    def __init__(self, session: Session, epoch_version: int) -> None:
        self._session = session
        self._tree = session.tree
        self._fence = Check(CONTROLLER_EPOCH, epoch_version)

    # -- one node ------------------------------------------------------------

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._session.call(call)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        """None if there is no such node; then no watch is left."""
        try:
            return await self.call(lambda: self._tree.get(path, watch))
        except NoNode:
            return None

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """What each of some nodes has, None where there is none."""
        return await self.call(lambda: self._tree.get_many(paths))

    async def find(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        """As `get`, but a watch is left also where there is no node yet."""
        while True:
            found = await self.get(path, watch)
            if found is not None or not await self.call(lambda: self._tree.exists(path, watch)):
                return found

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """None below a node that is not there."""
        try:
            return await self.call(lambda: self._tree.children(path, watch))
        except NoNode:
            return []

    async def write(self, *operations: Operation) -> list[Result]:
        """Do all of it in one transaction, if this controller's epoch is still the newest."""
        try:
            fenced = (self._fence, *operations)
            return (await self.call(lambda: self._tree.multi(fenced)))[1:]
        except (BadVersion, NoNode) as error:
            if error.path == CONTROLLER_EPOCH:
                raise Deposed(f"a newer controller was elected: {error}") from error
            raise

    async def make(self, path: str, data: bytes = b"") -> bool:
        """Whether the node was made; it may have been there. Raises NoNode without its parent."""
        try:
            await self.write(Create(path, data))
        except NodeExists:
            return False
        return True

    async def replace(self, path: str, data: bytes | None, version: int) -> bool:
        """Write a node or, without data, delete it; False if it is another version by now."""
        operation = Delete(path, version) if data is None else Set(path, data, version)
        try:
            await self.write(operation)
        except (BadVersion, NoNode):
            return False
        return True

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete nodes that have no children; those that are gone already count as deleted."""
        await self._each_together([Delete(path) for path in paths])

    async def delete_below(self, path: str) -> None:
        """Delete a node and all below it, whatever is added meanwhile."""
        while True:
            try:
                return await self.delete(reversed(await self._with_descendants(path)))
            except NotEmpty:
                continue

    async def _with_descendants(self, path: str) -> list[str]:
        """Parents first, so that the reverse can be deleted one after the other."""
        level, found = [path], list[str]()
        while level:
            found += level
            below = await pipelined(self.children(each) for each in level)
            level = [
                f"{each}/{name}" for each, names in zip(level, below, strict=True) for name in names
            ]
        return found

    async def _each_together(self, deletes: Sequence[Delete]) -> None:
        for some in _in_parts(deletes):
            try:
                await self.write(*some)
            except NoNode:
                for each in some:
                    await self._delete(each)

    async def _delete(self, delete: Delete) -> None:
        try:
            await self.write(delete)
        except NoNode:
            return

    # -- the states of partitions --------------------------------------------

    async def create_states(self, creates: Mapping[TopicPartition, PartitionState]) -> Written:
        """Give new partitions their `state`, and the folders it lies in."""
        topics = dict.fromkeys(partition.topic for partition in creates)
        await pipelined(self._make_below_topic(topic) for topic in topics)
        return await self._write_states(
            {
                partition: (
                    Create(partition_path(partition)),
                    Create(partition_state_path(partition), encode_partition_state(state)),
                )
                for partition, state in creates.items()
            },
            {partition: Led(state, 0) for partition, state in creates.items()},
        )

    async def update_states(
        self, updates: Mapping[TopicPartition, tuple[PartitionState, int]]
    ) -> Written:
        """Write each `state` that still has the version it was decided on."""
        return await self._write_states(
            {
                each: (Set(partition_state_path(each), encode_partition_state(state), version),)
                for each, (state, version) in updates.items()
            },
            {each: Led(state, version + 1) for each, (state, version) in updates.items()},
        )

    async def _make_below_topic(self, topic: str) -> None:
        try:
            await self.make(partitions_path(topic))
        except NoNode:
            return

    async def _write_states(
        self,
        writes: Mapping[TopicPartition, tuple[Operation, ...]],
        led: Mapping[TopicPartition, Led],
    ) -> Written:
        written = Written({}, [])
        parts = _in_parts(list(writes))
        await pipelined(self._write_part(part, writes, led, written) for part in parts)
        return written

    async def _write_part(
        self,
        part: Sequence[TopicPartition],
        writes: Mapping[TopicPartition, tuple[Operation, ...]],
        led: Mapping[TopicPartition, Led],
        written: Written,
    ) -> None:
        """All in one transaction; if one of them cannot be, then each in its own."""
        try:
            await self.write(*(operation for each in part for operation in writes[each]))
        except (BadVersion, NodeExists, NoNode):
            for each in part:
                await self._write_state(each, writes[each], led[each], written)
        else:
            written.led.update((each, led[each]) for each in part)

    async def _write_state(
        self,
        partition: TopicPartition,
        operations: tuple[Operation, ...],
        led: Led,
        written: Written,
    ) -> None:
        try:
            await self.write(*operations)
        except NoNode:
            return
        except NodeExists as error:
            if error.path != partition_state_path(partition):
                # Only its folder is there: whoever began stopped half way.
                await self._write_state(partition, operations[1:], led, written)
            else:
                written.stale.append(partition)
        except BadVersion:
            written.stale.append(partition)
        else:
            written.led[partition] = led

    # -- topics --------------------------------------------------------------

    async def write_topic(self, topic: str, wanted: TopicAssignment, version: int) -> int:
        """Write who holds what; partitions that another added meanwhile stay as they are.

        Returns the version the node has now. Raises NoNode.
        """
        while True:
            try:
                (stat,) = await self.write(Set(topic_path(topic), encode_topic(wanted), version))
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
        """Remove all of a topic, the mark that it shall be deleted last."""
        await self.delete_below(topic_path(topic))
        await self.delete([config_path(topic_entity(topic))])
        await self.delete([delete_topic_path(topic)])

    async def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The properties that are set on topics; none on those whose node cannot be read."""
        return dict(zip(topics, await pipelined(map(self._topic_config, topics)), strict=True))

    async def _topic_config(self, topic: str) -> dict[str, str]:
        node = await self.get(config_path(topic_entity(topic)))
        try:
            return decode_config(topic_entity(topic), node[0]) if node else {}
        except MalformedZnode as error:
            log.error("znode is passed over: %s", error)
            return {}

    async def set_or_make(self, path: str, data: bytes) -> None:
        try:
            await self.write(Set(path, data, ANY_VERSION))
        except NoNode:
            await self.make(path, data)


def _in_parts(whole: Sequence[T]) -> list[Sequence[T]]:
    return [whole[start : start + _TOGETHER] for start in range(0, len(whole), _TOGETHER)]
