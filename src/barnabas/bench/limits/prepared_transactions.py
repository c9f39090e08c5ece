"""Prepared requests of transactions, sent by a C program: the client does next to nothing.

A transaction is AddPartitionsToTxn, Produce of one record, and EndTxn, in the versions of Apache
Kafka 3.9's own client. Each connection has a transactional id, and a partition.
"""

import json
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.bench.limits.load_generator import LoadFailed
from barnabas.bench.limits.load_messages import (
    CLIENT_ID,
    Exchange,
    batch_with,
    compact_string,
    framed,
    produce,
    record,
    request_head,
)
from barnabas.bench.limits.native_build import program
from barnabas.client.blocking_client import BlockingClient
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.coordinator import TRANSACTION, ask_coordinator
from barnabas.client.metadata import Metadata, fields
from barnabas.client.retries import Address, RetriableError, Steps, error_words, retried, within
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import duration

RECORD_BYTES: Final = 1024
AGAIN_US: Final = 250  # until a request that was refused for now is sent again
ADD_VERSION, PRODUCE_VERSION, END_VERSION = 3, 11, 4
REQUESTS: Final = 3  # of a transaction, if none is refused
TIMEOUT_MS: Final = 60_000
PATIENCE_S: Final = 20.0
_TRANSACTIONAL: Final = 0x10
# Before the fields of a response: its size, correlation id, tagged fields and throttle time.
_REPLY_HEAD: Final = 4 + 4 + 1 + 4


class PreparedProducer(NamedTuple):
    """A transactional id, and what InitProducerId returned for it."""

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def encoded(self) -> bytes:
        return compact_string(self.transactional_id) + struct.pack(
            ">qh", self.producer_id, self.epoch
        )


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions of a run, all committed; `took_us` has the time of each, from its first
    request to the response to EndTxn. `refused` requests were sent again."""

    seconds: float
    client_cpu_seconds: float
    refused: int
    took_us: Sequence[int]


def drive_transactions(
    address: Address,
    topic: str,
    connections: int,
    seconds: float,
    folder: Path,
    patience_s: float = PATIENCE_S,
) -> Transactions:
    """Transactions for so long; connection N writes to partition N, as the same producer each time.

    Raises  LoadFailed, if a response is wrong, late, or has an error that does not pass
    """
    producers = _begin(address, [f"{topic}-{number:03}" for number in range(connections)])
    requests = [_requests(topic, number, each) for number, each in enumerate(producers)]
    frames = folder / "transactions"
    frames.write_bytes(b"".join(request for each in requests for request in each))
    add, produced, end = requests[0]
    exchange = _produce(topic, producers[0])
    arguments = {
        "port": address[1],
        "connections": connections,
        "frames": frames,
        "add": len(add),
        "produce": len(produced),
        "end": len(end),
        "records_at": exchange.records_at,
        "add_error_at": _REPLY_HEAD + 1 + len(compact_string(topic)) + 1 + 4,
        "produce_error_at": exchange.error_at,
        "end_error_at": _REPLY_HEAD,
        "seconds": seconds,
        "again_us": AGAIN_US,
        "patience_ms": round(patience_s * 1000),
    }
    command = [str(program("transact")), *(f"{name}={value}" for name, value in arguments.items())]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise LoadFailed(result.stderr.strip() or f"it exited with code {result.returncode}")
    return Transactions(**json.loads(result.stdout))


def _requests(topic: str, partition: int, producer: PreparedProducer) -> tuple[bytes, bytes, bytes]:
    add = producer.encoded + b"\2" + compact_string(topic) + b"\2"
    add += struct.pack(">i", partition) + b"\0\0"
    end = producer.encoded + b"\1\0"
    return (
        framed(request_head(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION) + add),
        _produce(topic, producer).request_for(partition),
        framed(request_head(ApiKey.END_TXN, END_VERSION) + end),
    )


def _produce(topic: str, producer: PreparedProducer) -> Exchange:
    value = record(0, b"v" * RECORD_BYTES)
    batch = batch_with([value], _TRANSACTIONAL, producer.producer_id, producer.epoch)
    return produce(batch, topic, -1, PRODUCE_VERSION, producer.transactional_id)


def _begin(address: Address, names: Sequence[str]) -> list[PreparedProducer]:
    """Raises LoadFailed."""
    client, metadata = BlockingClient(_connected), Metadata([address])
    try:
        return [client.run(_init(metadata, name)) for name in names]
    except BarnabasError as failure:
        raise LoadFailed(f"no producer id: {failure}") from failure
    finally:
        client.close()


def _init(metadata: Metadata, name: str) -> Steps[PreparedProducer]:
    retry = within(PATIENCE_S)
    request = fields(
        transactional_id=name,
        transaction_timeout=duration(TIMEOUT_MS),
        producer_id=-1,
        producer_epoch=-1,
    )

    def attempt() -> Steps[PreparedProducer]:
        given = yield from ask_coordinator(
            metadata, name, ApiKey.INIT_PRODUCER_ID, request, retry, kind=TRANSACTION
        )
        if given.error_code is not ErrorCode.none:
            raise RetriableError(error_words(given.error_code))
        return PreparedProducer(name, given.producer_id, given.producer_epoch)

    return retried(attempt, retry)


def _connected(address: Address) -> BlockingConnection:
    return BlockingConnection.connect(
        *address, client_id=CLIENT_ID.decode(), connect_s=PATIENCE_S, response_s=PATIENCE_S
    )
