"""Kafka's view of its own logs: through its protocol, and through its dump tool."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, TopicPartition

from tests.golden.content import content
from tests.support.apache_kafka import ApacheKafka
from tests.support.clients import PATIENCE_S, Stored
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient, admin, stored
from tests.support.kafka_dump import Fields, dump

WITHOUT_INDEXES: Final = (".log", ".txnindex", ".snapshot")
_PREALLOCATED: Final = bytes(100)  # the tool fails at the end of a file
DUMPED: Final = (*WITHOUT_INDEXES, ".index", ".timeindex")


def observe_topics(bootstrap: str) -> dict[str, Any]:
    """Each partition as a consumer sees it: offsets, records, and offsets by timestamp."""
    names = [name for name in ConfluentAdmin(bootstrap).topics() if not name.startswith("__")]
    return {f"{name}-0": _observe(bootstrap, name) for name in sorted(names)}


def _observe(bootstrap: str, topic: str) -> dict[str, Any]:
    client, spec = ConfluentClient(bootstrap), admin.OffsetSpec
    records = read_partition(client, topic)
    committed = read_partition(client, topic, isolation="read_committed")
    latest = _offset(bootstrap, topic, spec.max_timestamp())
    times = [record.message.timestamp or 0 for record in records]
    asked = sorted({*times, *(moment + 1 for moment in times)})
    chosen = asked[:: max(1, len(asked) // 12)]
    return {
        "start": _offset(bootstrap, topic, spec.earliest()).offset,
        "end": _offset(bootstrap, topic, spec.latest()).offset,
        "log_append_time": any(record.log_append_time for record in records),
        "records": [as_json(record) for record in records],
        "committed": [record.offset for record in committed],
        "times": [[moment, client.offset_at(topic, moment)] for moment in chosen],
        "max_timestamp": [latest.timestamp, latest.offset],
    }


def read_partition(
    client: ConfluentClient, topic: str, *, isolation: str = "read_uncommitted"
) -> list[Stored]:
    """All records that a consumer of partition 0 sees."""
    end = _offset(client.bootstrap, topic, admin.OffsetSpec.latest(), isolation).offset
    consumer: Consumer = client.consumer(
        {"isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 50}
    )
    found = []
    try:
        # Without a known leader librdkafka would resolve the beginning only later.
        consumer.list_topics(topic, timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, 0, -2)])
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} ends at {end}, but no more comes"
            if message.error() is None:
                found.append(stored(message))
            elif message.offset() >= end:
                return found
    finally:
        consumer.close()


def _offset(bootstrap: str, topic: str, spec: Any, isolation: str = "read_uncommitted") -> Any:
    """The result of ListOffsets: an offset, and a timestamp if one was requested."""
    level = getattr(confluent_kafka.IsolationLevel, isolation.upper())
    asked = {TopicPartition(topic, 0): spec}
    client = ConfluentAdmin(bootstrap).client
    (future,) = client.list_offsets(asked, isolation_level=level).values()
    return future.result(PATIENCE_S)


def as_json(record: Stored) -> list[Any]:
    """Offset, timestamp, key, value, headers."""
    message = record.message
    headers = [[name, content(value)] for name, value in message.headers]
    return [record.offset, message.timestamp, content(message.key), content(message.value), headers]


def observe_files(kafka: ApacheKafka, data: Path, suffixes: Sequence[str]) -> dict[str, Any]:
    """Each file as the dump tool sees it: the names of fields, then the fields of each entry.

    Of the records only those that a consumer does not see: transaction markers.
    """
    files = sorted(path for path in data.rglob("*") if path.suffix in suffixes)
    files = [path for path in files if not path.read_bytes().endswith(_PREALLOCATED)]
    dumped = dump(kafka, files, "--print-data-log")
    return {
        str(Path(path).relative_to(data)): _rows(found) for path, found in dumped.entries.items()
    }


def _rows(entries: Sequence[Fields]) -> list[list[Any]]:
    for batch in entries:
        if "isControl" in batch:
            records = batch.pop("records")
            batch["markers"] = [record["endTxnMarker"] for record in records if batch["isControl"]]
    return [list(entries[0]), *(list(entry.values()) for entry in entries)] if entries else []
