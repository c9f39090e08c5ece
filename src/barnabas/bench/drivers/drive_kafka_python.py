"""The driver of kafka-python."""

import time
from collections.abc import Collection
from functools import partial
from typing import Any

import kafka
from kafka.consumer.subscription_state import ConsumerRebalanceListener

from barnabas.bench.drivers.driver_program import POLL_S, Paced, Spec, Tally, main, sending

library: Any = kafka  # it is not typed
POLL_MS = int(1000 * POLL_S)


def produce(spec: Spec) -> dict[str, Any]:
    producer = _producer(spec)
    value = spec.value
    start = time.perf_counter()
    for partition in spec.targets():
        last = producer.send(spec.topic, value, partition=partition)
    producer.flush()
    last.get()
    return {"seconds": time.perf_counter() - start}


class KafkaPythonAssignment(ConsumerRebalanceListener):
    """A rebalance listener that starts the clock of a tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def on_partitions_assigned(self, assigned: Collection[object]) -> None:
        self._tally.assigned(assigned)

    def on_partitions_revoked(self, revoked: object) -> None:
        """Ignored: the clock keeps running."""


def consume(spec: Spec) -> dict[str, Any]:
    consumer = library.KafkaConsumer(
        bootstrap_servers=spec.bootstrap, group_id=spec.group, auto_offset_reset="earliest"
    )
    tally = Tally(spec)
    consumer.subscribe([spec.topic], listener=KafkaPythonAssignment(tally))
    while not tally.is_done:
        polled = consumer.poll(POLL_MS)
        sizes = [len(record.value) for records in polled.values() for record in records]
        tally.add(len(sizes), sum(sizes))
    consumer.close()
    return tally.answer()


def latency(spec: Spec) -> dict[str, Any]:
    paced, producer = Paced(spec), _producer(spec)
    place = library.TopicPartition(spec.topic, 0)
    consumer = library.KafkaConsumer(bootstrap_servers=spec.bootstrap)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    send = partial(producer.send, spec.topic, partition=0)
    with sending(paced, send, producer.flush) as reading:
        while not paced.is_done:
            for records in consumer.poll(POLL_MS).values():
                for record in records:
                    paced.came(record.value)
            reading.set()
    consumer.close()
    return paced.answer()


def _producer(spec: Spec) -> Any:
    producer: Any = library.KafkaProducer(bootstrap_servers=spec.bootstrap)
    producer.partitions_for(spec.topic)
    return producer


if __name__ == "__main__":
    main({"produce": produce, "consume": consume, "latency": latency})
