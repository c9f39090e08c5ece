"""The final state of a healed cluster: every record read, and the bytes of every log."""

from collections.abc import Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.sim.checkers.history import FADING, OperationHistory, OperationOutcome, Poll, Polled
from barnabas.sim.checkers.violations import FinalPartition, FinalState
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.world.cluster_observer import ObservedPartition
from barnabas.sim.world.seed_settings import broker_stream
from barnabas.sim.world.sim_world import SimWorld
from barnabas.wire.records.batch import headers

READ_WITHIN_S: Final = 120.0


async def read_all(world: SimWorld) -> FinalState:
    """Read all partitions as a consumer, and the logs of their replicas. Runs on a client host.

    Reports a broken law for each partition that cannot be read in time.
    """
    seen = {
        each.topic_partition: each
        for each in world.observer.partitions()
        if each.topic_partition.topic != OFFSETS_TOPIC
    }
    history = OperationHistory(world.loop.time)
    random = broker_stream(world.settings.seed, "the end")
    consumer = Consumer("the end", world.settings.bootstrap, random, history)
    consumer.assign(dict.fromkeys(seen, 0))
    deadline = world.loop.time() + READ_WITHIN_S
    while missing := [at for at in seen if not _is_read(consumer, at)]:
        if world.loop.time() > deadline:
            for at in missing:
                world.on_broken(f"{at} cannot be read beyond offset {consumer.positions[at]}")
            break
        await consumer.poll()
    consumer.close()
    read: dict[TopicPartition, list[tuple[int, int]]] = {at: [] for at in seen}
    for operation, poll in history.of(Poll):
        if operation.outcome is OperationOutcome.FAILED:
            read[poll.at].clear()  # the log start advanced: it was read again from there
        elif isinstance(operation.got, Polled):
            read[poll.at].extend(operation.got.records)
    return FinalState(
        tuple(
            _partition(world, each, consumer.high_watermarks.get(at, 0), read[at])
            for at, each in seen.items()
        )
    )


def _is_read(consumer: Consumer, at: TopicPartition) -> bool:
    return consumer.positions[at] >= consumer.high_watermarks.get(at, 1 << 62)


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
