"""The end of a run, when nothing is wrong any more: read everything, and look into every log."""

from collections.abc import Iterable
from typing import Final as Constant

from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.server.offsets_topic import OFFSETS_TOPIC
from barnabas.sim.clients_consumer import Consumer
from barnabas.sim.history import History, Poll, Polled
from barnabas.sim.observing import Seen
from barnabas.sim.setting import broker_stream
from barnabas.sim.violations import Final, FinalPartition
from barnabas.sim.world import World
from barnabas.wire.batch import headers

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
    for operation in history.operations:
        if isinstance(operation.asked, Poll) and isinstance(operation.got, Polled):
            read[operation.asked.at].extend(operation.got.records)
    return Final(
        tuple(
            _partition(world, each, consumer.high_watermarks.get(at, 0), read[at])
            for at, each in seen.items()
        )
    )


def _is_read(consumer: Consumer, at: TopicPartition) -> bool:
    return consumer.positions[at] >= consumer.high_watermarks.get(at, 1 << 62)


def _partition(
    world: World, seen: Seen, high_watermark: int, records: Iterable[tuple[int, int]]
) -> FinalPartition:
    assert seen.topic_id is not None
    logs = {
        machine.broker_id: machine.broker.logs.get(seen.topic_partition)
        for machine in world.machines
        if machine.broker is not None and machine.broker_id in seen.replicas
    }
    return FinalPartition(
        seen.topic_partition,
        seen.topic_id,
        high_watermark,
        tuple(records),
        seen.replicas,
        {
            broker: _committed(log, high_watermark)
            for broker, log in logs.items()
            if log is not None
        },
    )


def _committed(log: Log, high_watermark: int) -> bytes:
    """The batches of a log, as its files have them, up to the high watermark."""
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    end = 0
    for position, header in headers(data):
        if header.last_offset >= high_watermark:
            break
        end = position + header.size
    return data[:end]
