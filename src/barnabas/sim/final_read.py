"""The final state of a healed cluster: every record read, and the bytes of every log."""

from collections.abc import Sequence

from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.sim.checkers.history import (
    FADING,
    TRANSACTIONAL,
    OperationHistory,
    OperationOutcome,
    Poll,
    Polled,
)
from barnabas.sim.checkers.violations import FinalPartition, FinalState
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.final_transactions import read_to_end, read_transactions
from barnabas.sim.world.cluster_observer import ObservedPartition
from barnabas.sim.world.seed_settings import broker_stream
from barnabas.sim.world.sim_world import SimWorld
from barnabas.wire.records.batch import headers


async def read_all(world: SimWorld) -> FinalState:
    """Read all partitions as a consumer, and the logs of their replicas. Runs on a client host.

    Reports a broken law for each partition that cannot be read in time.
    """
    seen = {
        each.topic_partition: each
        for each in world.observer.partitions()
        if not each.topic_partition.topic.startswith("__")
        and each.topic_partition.topic not in TRANSACTIONAL
    }
    history = OperationHistory(world.loop.time)
    random = broker_stream(world.settings.seed, "the end")
    consumer = Consumer("the end", world.settings.bootstrap, random, history)
    await read_to_end(world, consumer, list(seen))
    read: dict[TopicPartition, list[tuple[int, int]]] = {at: [] for at in seen}
    for operation, poll in history.of(Poll):
        if operation.outcome is OperationOutcome.FAILED:
            read[poll.at].clear()  # the log start advanced: it was read again from there
        elif isinstance(operation.got, Polled):
            read[poll.at].extend(operation.got.records)
    transactions = await read_transactions(world)
    return FinalState(
        (
            *(
                _partition(world, each, consumer.high_watermarks.get(at, 0), read[at])
                for at, each in seen.items()
            ),
            *(
                _partition(
                    world, each, transactions.high_watermarks.get(each.topic_partition, 0), ()
                )
                for each in world.observer.partitions()
                if each.topic_partition.topic in TRANSACTIONAL
            ),
        ),
        transactions.partitions,
        transactions.offsets,
    )


def _partition(
    world: SimWorld,
    seen: ObservedPartition,
    high_watermark: int,
    records: Sequence[tuple[int, int]],
) -> FinalPartition:
    assert seen.topic_id is not None
    at = seen.topic_partition
    logs = {
        machine.broker_id: log
        for machine in world.machines
        if machine.broker is not None and (log := machine.broker.logs.get(at)) is not None
    }
    log_start = 0
    if at.topic == FADING:
        log_start = records[0][0] if records else high_watermark
    start = max((log.log_start_offset for log in logs.values()), default=0)
    return FinalPartition(
        at,
        seen.topic_id,
        high_watermark,
        tuple(records),
        log_start,
        seen.replicas,
        {
            broker: _between(log, start, high_watermark)
            for broker, log in logs.items()
            if broker in seen.replicas
        },
    )


def _between(log: Log, start: int, high_watermark: int) -> bytes:
    """The batches in a log's files from an offset up to the high watermark."""
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    return b"".join(
        data[position : position + header.size]
        for position, header in headers(data)
        if start <= header.last_offset < high_watermark
    )
