"""The final state of transactional topics: what read_committed returns, and all that is logged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.sim.checkers.history import TRANSACTIONAL, OperationHistory, value_of
from barnabas.sim.checkers.transaction_operations import CommittedPoll, CommittedPolled
from barnabas.sim.checkers.violations import FinalTransactions, LoggedBatch
from barnabas.sim.clients.committed_consumer import CommittedConsumer
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.workloads.transaction_workloads import (
    COPIERS,
    INPUT,
    committed_offsets,
    partitions_of,
)
from barnabas.sim.world.seed_settings import broker_stream
from barnabas.sim.world.sim_world import SimWorld
from barnabas.wire.records.batch import headers
from barnabas.wire.records.records import ControlType, read_marker, read_records

READ_WITHIN_S: Final = 120.0


@dataclass(slots=True)
class TransactionsRead:
    """All transactional partitions, and the committed offsets of their groups."""

    partitions: tuple[FinalTransactions, ...] = ()
    offsets: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)


async def read_to_end(
    world: SimWorld, consumer: Consumer, partitions: Sequence[TopicPartition]
) -> None:
    """Read partitions from their start to the high watermark, and close the consumer.

    Reports a broken law for each that cannot be read in time.
    """
    consumer.assign(dict.fromkeys(partitions, 0))
    deadline = world.loop.time() + READ_WITHIN_S
    while missing := [at for at in partitions if not _is_read(consumer, at)]:
        if world.loop.time() > deadline:
            for at in missing:
                world.on_broken(f"{at} cannot be read beyond offset {consumer.positions[at]}")
            break
        await consumer.poll()
    consumer.close()


def _is_read(consumer: Consumer, at: TopicPartition) -> bool:
    return consumer.positions[at] >= consumer.high_watermarks.get(at, 1 << 62)


async def read_transactions(world: SimWorld) -> TransactionsRead:
    """Read with read_committed to the high watermark: no transaction may be open for long."""
    seen = [
        each.topic_partition
        for each in world.observer.partitions()
        if each.topic_partition.topic in TRANSACTIONAL
    ]
    if not seen:
        return TransactionsRead()
    history = OperationHistory(world.loop.time)
    random = broker_stream(world.settings.seed, "the end of transactions")
    consumer = CommittedConsumer("the end", world.settings.bootstrap, random, history)
    await read_to_end(world, consumer, seen)
    read: dict[TopicPartition, list[tuple[int, int]]] = {at: [] for at in seen}
    for operation, poll in history.of(CommittedPoll):
        if isinstance(operation.got, CommittedPolled):
            read[poll.at].extend(operation.got.records)
    return TransactionsRead(
        tuple(FinalTransactions(at, _logged(world, at), tuple(read[at])) for at in seen),
        {COPIERS: await _offsets(world)},
        dict(consumer.high_watermarks),
    )


async def _offsets(world: SimWorld) -> Mapping[TopicPartition, int]:
    """The committed offsets of the copiers, which must become stable."""
    deadline = world.loop.time() + READ_WITHIN_S
    connections = CommittedConsumer(
        "the end",
        world.settings.bootstrap,
        broker_stream(world.settings.seed, "the end of offsets"),
        OperationHistory(world.loop.time),
    ).connections
    while world.loop.time() < deadline:
        found = await committed_offsets(connections, COPIERS, partitions_of(INPUT))
        if found is not None:
            connections.close()
            return found
        await connections.back_off()
    connections.close()
    world.on_broken(f"the offsets of {COPIERS} cannot be fetched")
    return {}


def _logged(world: SimWorld, at: TopicPartition) -> tuple[LoggedBatch, ...]:
    """All batches of the leader's log."""
    (leader,) = (
        each.state.leader
        for each in world.observer.partitions()
        if each.topic_partition == at and each.state is not None
    )
    broker = world.machines[leader].broker
    log = None if broker is None else broker.logs.get(at)
    return () if log is None else tuple(_batches(log))


def _batches(log: Log) -> list[LoggedBatch]:
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    found = []
    for position, header in headers(data):
        batch = data[position : position + header.size]
        producer = (header.base_offset, header.producer_id, header.producer_epoch)
        marker = read_marker(batch) if header.is_control else None
        if marker is not None:
            is_commit = marker.control_type is ControlType.COMMIT
            found.append(LoggedBatch(*producer, (), is_commit))
        elif not header.is_control:
            values = tuple(value_of(record.value) for record in read_records(batch))
            found.append(LoggedBatch(*producer, values))
    return found
