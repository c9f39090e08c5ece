"""Reads what a cluster has when all is over: every record, and every replica byte by byte."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final as Constant

from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.randomness import Random
from barnabas.server.broker import Broker
from barnabas.sim.clients import Address
from barnabas.sim.clients_consumer import Consumer
from barnabas.sim.history import History, Poll, Polled
from barnabas.sim.violations import Final, FinalPartition

# No record came for so long, with every partition asked: there are no more.
QUIET_S: Constant = 3.0
_AT_ONCE: Constant = 1 << 20


async def read_final(
    bootstrap: Sequence[Address],
    random: Random,
    brokers: Mapping[int, Broker],
    quiet_s: float = QUIET_S,
) -> Final:
    """All topics but Kafka's own, to be called when the cluster is whole and nobody writes.

    `brokers` are those whose logs are to be compared; none of them is asked for it.
    """
    history = History(asyncio.get_running_loop().time)
    consumer = Consumer("final", bootstrap, random, history)
    try:
        await _read_all(consumer, quiet_s)
        final = _gathered(consumer, history)
    finally:
        consumer.close()
    return Final(tuple(replace(each, replicas=_replicas(each, brokers)) for each in final))


async def _read_all(consumer: Consumer, quiet_s: float) -> None:
    loop = asyncio.get_running_loop()
    while not await consumer.connections.refresh():
        await consumer.connections.back_off()
    consumer.assign(
        {
            TopicPartition(topic, partition): 0
            for topic, partitions in sorted(consumer.connections.topics.items())
            for partition in sorted(partitions)
            if not topic.startswith("__")
        }
    )
    last = loop.time()
    while consumer.positions and loop.time() - last < quiet_s:
        has_heard_all = consumer.high_watermarks.keys() >= consumer.positions.keys()
        if await consumer.poll() or not has_heard_all:
            last = loop.time()


def _gathered(consumer: Consumer, history: History) -> list[FinalPartition]:
    records: dict[TopicPartition, list[tuple[int, int]]] = {at: [] for at in consumer.positions}
    for operation, poll in history.of(Poll):
        if isinstance(operation.got, Polled):
            records[poll.at] += operation.got.records
    found = []
    for at in consumer.positions:
        partition = consumer.connections.topics[at.topic][at.partition]
        assert partition.leader is not None, f"{at} was read, so someone leads it"
        found.append(
            FinalPartition(
                at,
                partition.leader.topic_id,
                consumer.high_watermarks[at],
                tuple(records[at]),
                partition.replicas,
            )
        )
    return found


def _replicas(end: FinalPartition, brokers: Mapping[int, Broker]) -> dict[int, bytes]:
    return {
        broker: log_bytes(brokers[broker], end.at, end.high_watermark)
        for broker in end.assigned
        if broker in brokers
    }


def log_bytes(broker: Broker, at: TopicPartition, upto: int) -> bytes:
    """The batches that a broker has of a partition, below an offset."""
    replica = broker.replicas.get(at)
    if replica is None:
        return b""
    log = replica.log
    found = bytearray()
    for segment in log.segments:
        start = max(segment.base_offset, log.log_start_offset)
        if start < upto:
            extent = log.locate(Offset(start), _AT_ONCE, Offset(upto), minimum_one=True)
            found += extent.load()
    return bytes(found)
