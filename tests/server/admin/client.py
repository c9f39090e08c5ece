"""A raw client: any API at any version over a blocking socket, and the records it produces."""

import io
import socket
import struct
import uuid
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Self

from kio.serial import entity_reader

from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.message_schema import Entity
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.schema import read_body, request_type, response_type, write_body

EARLIEST, LATEST = -2, -1
PATIENCE = timedelta(seconds=10)


def parts(**fields: object) -> Any:
    """A piece of a request; what is not given takes Kafka's default in the version sent."""
    return SimpleNamespace(**fields)


class Client:
    """One connection; each call waits for its answer, given in the version that was asked in."""

    def __init__(self, host: str, port: int, timeout_s: float = 20) -> None:
        self.port = port
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._stream = self._socket.makefile("rb")
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def call(self, key: ApiKey, /, version: int | None = None, **fields: object) -> Any:
        """Ask in `version`, the newest unless given."""
        version = APIS[key].highest if version is None else version
        self.send(key, version, **fields)
        return self.receive(key, version)

    def send(self, key: ApiKey, /, version: int, **fields: object) -> None:
        self._correlation_id += 1
        target = request_type(key, version)
        # Kafka's default for some requests is not to wait at all for what was asked.
        if "timeout" in getattr(target, "__dataclass_fields__", ()):
            fields.setdefault("timeout", PATIENCE)
        out = io.BytesIO()
        out.write(struct.pack(">hhih4s", key, version, self._correlation_id, 4, b"test"))
        if version >= APIS[key].flexible:
            out.write(b"\0")
        out.write(write_body(target, parts(**fields)))
        frame = out.getvalue()
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self, key: ApiKey, version: int) -> Any:
        size = int.from_bytes(self._read(4), "big")
        body = self._read(size)
        assert int.from_bytes(body[:4], "big") == self._correlation_id
        flexible = version >= APIS[key].flexible and key is not ApiKey.API_VERSIONS
        start = 5 if flexible else 4
        entity = response_type(key, version)
        if issubclass(entity, Entity):
            return read_body(entity, memoryview(body)[start:])
        response, used = entity_reader(entity)(body, start)
        assert start + used == size, "bytes are left over"
        return response

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionError("the broker closed the connection")
        return data

    # Steps that many tests take before they come to their point

    def create(self, name: str, partitions: int = 1, **configs: str) -> uuid.UUID:
        """A topic; configs with underscores for dots."""
        wanted = parts(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=tuple(parts(name=k.replace("_", "."), value=v) for k, v in configs.items()),
        )
        (topic,) = self.call(ApiKey.CREATE_TOPICS, topics=(wanted,)).topics
        assert topic.error_code == 0, topic
        found: uuid.UUID = topic.topic_id
        return found

    def can_create(self, name: str) -> bool:
        """True if the name is free; it is not while a topic that had it is being deleted."""
        wanted = parts(name=name, num_partitions=1, replication_factor=1)
        (topic,) = self.call(ApiKey.CREATE_TOPICS, topics=(wanted,), validate_only=True).topics
        return bool(topic.error_code == 0)

    def delete(self, name: str) -> Any:
        asked = parts(name=name, topic_id=None)
        return self.call(ApiKey.DELETE_TOPICS, topics=(asked,)).responses[0]

    def produce(
        self,
        topic: str,
        values: Sequence[bytes] = (b"value",),
        partition: int = 0,
        timestamp: int = 1_000,
        key: bytes | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> Any:
        """One batch, its records a millisecond apart; returns the partition's answer."""
        records = [Record(n, timestamp + n, key, value, ()) for n, value in enumerate(values)]
        producer_id, epoch, sequence = producer
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        sent = parts(index=partition, records=bytes(batch))
        data = parts(name=topic, partition_data=(sent,))
        response = self.call(ApiKey.PRODUCE, acks=-1, topic_data=(data,))
        return response.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, partition: int = 0) -> Any:
        """In a version that names topics; returns the partition's answer, at once."""
        asked = parts(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        response = self.call(
            ApiKey.FETCH,
            12,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=(parts(topic=topic, partitions=(asked,)),),
        )
        return response.responses[0].partitions[0]

    def offset(self, topic: str, timestamp: int, partition: int = 0) -> int:
        """As ListOffsets tells it; fails on an error."""
        found = self.list_offsets(topic, timestamp, partition=partition)
        assert found.error_code == 0, found
        return int(found.offset)

    def list_offsets(
        self,
        topic: str,
        timestamp: int,
        version: int | None = None,
        *,
        partition: int = 0,
        epoch: int = -1,
        isolation_level: int = 0,
    ) -> Any:
        asked = parts(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        response = self.call(
            ApiKey.LIST_OFFSETS,
            version,
            replica_id=-1,
            isolation_level=isolation_level,
            topics=(parts(name=topic, partitions=(asked,)),),
        )
        return response.topics[0].partitions[0]
