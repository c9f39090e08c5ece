"""A librdkafka consumer in a process of its own, which reads a partition up to a known record.

`python -m barnabas.bench.attacks.topic_reader BOOTSTRAP TOPIC SECONDS` prints one line of JSON. A
process of its own, because a batch may make the consumer use all memory or crash.
"""

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Final

LAST: Final = b"after"
_STARTED_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class TopicReading:
    """`is_past`: the consumer reached the last record. `error` is what it reported instead."""

    is_past: bool
    records: int
    error: str = ""
    memory_bytes: int = 0


def read_past(bootstrap: str, topic: str, patience_s: float) -> TopicReading:
    """Read partition 0 until the record LAST, in another process."""
    command = [sys.executable, "-m", "barnabas.bench.attacks.topic_reader", bootstrap, topic]
    try:
        found = subprocess.run(
            [*command, str(patience_s)],
            capture_output=True,
            text=True,
            timeout=patience_s + _STARTED_WITHIN_S,
            process_group=0,
        )
    except subprocess.TimeoutExpired:
        return TopicReading(False, 0, "the consumer hangs")
    if found.returncode or not found.stdout:
        return TopicReading(False, 0, f"the consumer ended with code {found.returncode}")
    return TopicReading(**json.loads(found.stdout))


def _read(bootstrap: str, topic: str, patience_s: float) -> TopicReading:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline, records, error, is_past = time.monotonic() + patience_s, 0, "", False
    while not is_past and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if (problem := message.error()) is not None:
            error = problem.name()
            continue
        records += 1
        is_past = message.value() == LAST
    consumer.close()
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return TopicReading(is_past, records, error, memory)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(_read(sys.argv[1], sys.argv[2], float(sys.argv[3])))))
