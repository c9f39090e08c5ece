"""Offsets that clients of Kafka 0.8.1 commit: in the coordination tree, not in a topic.

Each is a znode `/consumers/<group>/offsets/<topic>/<partition>`. Groups of newer versions do not
see them, nor do they expire.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes.layout import decode_consumer_offset, encode_consumer_offset
from barnabas.znodes.paths import consumer_offset_path
from barnabas.znodes.tree import (
    Coordination,
    InvalidPath,
    MalformedZnode,
    NodeExists,
    NoNode,
    check_path,
)


class TreeOffsets:
    """Commits and fetches them, one by one."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    async def commit(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Raises BrokerError, if the group's name makes no path or the tree does not respond."""
        with _path(group_id, partition) as path:
            data = encode_consumer_offset(offset)
            try:
                await self._coordination.set(path, data)
            except NoNode:
                with suppress(NodeExists):
                    await self._coordination.create(path, make_parents=True)
                await self._coordination.set(path, data)

    async def fetch(self, group_id: str, partition: TopicPartition) -> int | None:
        """The committed offset, None if there is none. Raises BrokerError as `commit` does."""
        with _path(group_id, partition) as path:
            try:
                data, _ = await self._coordination.get(path)
                return decode_consumer_offset(path, data)
            except NoNode:
                return None
            except MalformedZnode as e:
                raise BrokerError(ErrorCode.unknown_server_error, str(e)) from e


@contextmanager
def _path(group_id: str, partition: TopicPartition) -> Iterator[str]:
    path = consumer_offset_path(group_id, partition)
    try:
        check_path(path)
    except InvalidPath as e:
        raise BrokerError(ErrorCode.invalid_group_id, str(e)) from e
    with coordinating():
        yield path
