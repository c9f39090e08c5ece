"""The driver of aiokafka."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

import aiokafka

from barnabas.bench.drivers.driver_program import POLL_S, Paced, Spec, Tally, main

library: Any = aiokafka  # it is only partly typed
POLL_MS = int(1000 * POLL_S)


async def produce(spec: Spec) -> dict[str, Any]:
    async with library.AIOKafkaProducer(bootstrap_servers=spec.bootstrap) as producer:
        await producer.partitions_for(spec.topic)
        value = spec.value
        start = time.perf_counter()
        for target in spec.targets():
            last = await producer.send(spec.topic, value, partition=target)
        await producer.flush()
        await last
        return {"seconds": time.perf_counter() - start}


class AiokafkaAssignment(aiokafka.ConsumerRebalanceListener):
    """A rebalance listener that starts the clock of a tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def on_partitions_assigned(self, assigned: Collection[object]) -> None:
        self._tally.assigned(assigned)

    def on_partitions_revoked(self, revoked: object) -> None:
        """Ignored: the clock keeps running."""


async def consume(spec: Spec) -> dict[str, Any]:
    consumer = library.AIOKafkaConsumer(
        bootstrap_servers=spec.bootstrap, group_id=spec.group, auto_offset_reset="earliest"
    )
    tally = Tally(spec)
    consumer.subscribe([spec.topic], listener=AiokafkaAssignment(tally))
    async with consumer:
        while not tally.is_done:
            polled = await consumer.getmany(timeout_ms=POLL_MS)
            sizes = [len(record.value) for records in polled.values() for record in records]
            tally.add(len(sizes), sum(sizes))
        return tally.answer()


async def latency(spec: Spec) -> dict[str, Any]:
    paced, place = Paced(spec), library.TopicPartition(spec.topic, 0)
    consumer = library.AIOKafkaConsumer(bootstrap_servers=spec.bootstrap)
    async with library.AIOKafkaProducer(bootstrap_servers=spec.bootstrap) as producer, consumer:
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        sender = asyncio.create_task(_send(producer, spec, paced))
        while not paced.is_done:
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    paced.came(record.value)
        await sender
        return paced.answer()


async def _send(producer: Any, spec: Spec, paced: Paced) -> None:
    for pause in paced.due():
        await asyncio.sleep(pause)
        await producer.send(spec.topic, paced.value(), partition=0)
    await producer.flush()


def _run(role: Callable[[Spec], Awaitable[dict[str, Any]]], spec: Spec) -> dict[str, Any]:
    async def whole() -> dict[str, Any]:
        return await role(spec)

    return asyncio.run(whole())


if __name__ == "__main__":
    main({role.__name__: partial(_run, role) for role in (produce, consume, latency)})
