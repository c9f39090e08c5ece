"""The coordination tree of a stopped broker: read, filled, or copied to a ZooKeeper."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from barnabas.base.ids import BrokerId, LeaderEpoch, ProducerId, TopicPartition
from barnabas.base.offload import InlineOffload
from barnabas.disk.disk import RealDisk
from barnabas.log.checkpoints import decode_epoch_checkpoint
from barnabas.log.recovery.log_loader import read_topic_id
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree

T = TypeVar("T")
BROKER = BrokerId(0)


def in_tree(data: Path, work: Callable[[EmbeddedSession], Awaitable[T]]) -> T:
    """Open or create the tree in a log directory."""

    async def run() -> T:
        tree = Tree.open(RealDisk(str(data)), InlineOffload())
        session = tree.session()
        try:
            return await work(session)
        finally:
            await session.close()
            await tree.close()

    return asyncio.run(run())


def read_nodes(data: Path) -> dict[str, bytes]:
    """Every node below the root with its data, parents first."""

    async def work(session: EmbeddedSession) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        waiting = [""]
        while waiting:
            parent = waiting.pop(0)
            for child in await session.children(parent or "/"):
                path = f"{parent}/{child}"
                found[path], _ = await session.get(path)
                waiting.append(path)
        return found

    return in_tree(data, work)


def enter_topics(data: Path, configs: dict[str, str]) -> None:
    """Register in a new tree every one-partition topic whose log is in the directory.

    Producer ids start far above those in the logs.
    """
    block = layout.ProducerIdBlock(BROKER, ProducerId(0), ProducerId(1_000_000))
    nodes = {paths.PRODUCER_ID_BLOCK: layout.encode_producer_id_block(block)}
    for path in sorted(data.glob("*-0")):
        nodes |= _nodes(data, TopicPartition(path.name.removesuffix("-0"), 0), configs)

    async def work(session: EmbeddedSession) -> None:
        for path, value in nodes.items():
            await session.create(path, value, make_parents=True)

    in_tree(data, work)


def _nodes(data: Path, partition: TopicPartition, configs: dict[str, str]) -> dict[str, bytes]:
    topic_id = read_topic_id(RealDisk(str(data)), str(partition))
    epochs = decode_epoch_checkpoint(
        (data / str(partition) / "leader-epoch-checkpoint").read_bytes()
    )
    state = layout.LeaderAndIsr(BROKER, LeaderEpoch(epochs[-1].epoch), 1, (BROKER,))
    return {
        paths.config_path(paths.topic_entity(partition.topic)): layout.encode_config(configs),
        paths.topic_path(partition.topic): layout.encode_topic(
            layout.TopicAssignment({0: (BROKER,)}, topic_id)
        ),
        paths.partition_state_path(partition): layout.encode_partition_state(state),
    }
