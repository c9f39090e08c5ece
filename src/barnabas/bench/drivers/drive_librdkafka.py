"""The driver of librdkafka, by confluent-kafka's API."""

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.bench.drivers.driver_program import (
    POLL_S,
    MessagesMissing,
    Paced,
    Spec,
    Tally,
    main,
    sending,
)

AT_ONCE = 500
CONNECTED_WITHIN_S = 30.0
FLUSHED_WITHIN_S = 100.0


def produce(spec: Spec) -> dict[str, Any]:
    producer = _producer(spec)
    value = spec.value
    start = time.perf_counter()
    for partition in spec.targets():
        while True:
            try:
                producer.produce(spec.topic, value, partition=partition)
                break
            except BufferError:  # as many messages wait as the client holds
                producer.poll(POLL_S)
    if left := producer.flush(FLUSHED_WITHIN_S):
        raise MessagesMissing(f"{left} of {spec.messages} messages were not acknowledged")
    return {"seconds": time.perf_counter() - start}


def consume(spec: Spec) -> dict[str, Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "group.protocol": spec.protocol,
            "auto.offset.reset": "earliest",
        }
    )
    tally = Tally(spec)
    consumer.subscribe([spec.topic], on_assign=lambda _, given: tally.assigned(given))
    while not tally.is_done:
        values = [message.value() for message in consumer.consume(AT_ONCE, POLL_S)]
        tally.add(len(values), sum(len(value or b"") for value in values))
    consumer.close()
    return tally.answer()


def latency(spec: Spec) -> dict[str, Any]:
    paced, producer = Paced(spec), _producer(spec)
    consumer = Consumer({"bootstrap.servers": spec.bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(spec.topic, 0, 0)])

    def send(value: bytes) -> None:
        producer.produce(spec.topic, value, partition=0)
        producer.poll(0)

    with sending(paced, send, producer.flush) as reading:
        while not paced.is_done:
            message = consumer.poll(POLL_S)
            reading.set()
            if message is not None and not message.error():
                paced.came(message.value() or b"")
    consumer.close()
    return paced.answer()


def _producer(spec: Spec) -> Producer:
    producer = Producer({"bootstrap.servers": spec.bootstrap})
    producer.list_topics(spec.topic, timeout=CONNECTED_WITHIN_S)
    return producer


if __name__ == "__main__":
    main({"produce": produce, "consume": consume, "latency": latency})
