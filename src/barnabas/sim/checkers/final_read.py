"""The end of a run, when nothing is wrong any more: read everything, and look into every log."""

from collections.abc import Sequence
from typing import Final as Constant

from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.sim.checkers.history import FADING, History, Outcome, Poll, Polled
from barnabas.sim.checkers.violations import Final, FinalPartition
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.world.onlooker import Seen
from barnabas.sim.world.seed_settings import broker_stream
from barnabas.sim.world.sim_world import World
from barnabas.wire.records.batch import headers

READ_WITHIN_S: Constant = 120.0


async def read_all(world: World) -> Final:
    """All partitions as a consumer reads them, and as their replicas have them; runs on a client.

    What cannot be read in time is told as a broken law.
    """
    seen = {
        each.topic_partition: each
        for each in world.onlooker.partitions()
        if each.topic_partition.topic != OFFSETS_TOPIC
    }
    history = History(world.loop.time)
    random = broker_stream(world.setting.seed, "the end")
    consumer = Consumer("the end", world.setting.bootstrap, random, history)
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
        if operation.outcome is Outcome.FAILED:
            read[poll.at].clear()  # its beginning went while it was read, so it was read anew
        elif isinstance(operation.got, Polled):
            read[poll.at].extend(operation.got.records)
    return Final(
        tuple(
            _partition(world, each, consumer.high_watermarks.get(at, 0), read[at])
            for at, each in seen.items()
        )
    )


def _is_read(consumer: Consumer, at: TopicPartition) -> bool:
    return consumer.positions[at] >= consumer.high_watermarks.get(at, 1 << 62)


def _partition(
    world: World, seen: Seen, high_watermark: int, records: Sequence[tuple[int, int]]
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
    """The batches of a log, as its files have them, from an offset on up to the high watermark."""
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    return b"".join(
        data[position : position + header.size]
        for position, header in headers(data)
        if start <= header.last_offset < high_watermark
    )
