"""Requests for what no client offers: sending a batch again."""

from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.metadata import fields
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.client.versions import PORTABLE
from barnabas.wire.apis import ApiKey
from tests.support.clients import PATIENCE_S

_NAME = "raw"
_PRODUCE = PORTABLE[ApiKey.PRODUCE]


class RawConnection:
    """One connection, one request at a time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self._connection = BlockingConnection.connect(
            host, int(port), client_id=_NAME, connect_s=PATIENCE_S, response_s=PATIENCE_S
        )

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def init_producer_id(self) -> tuple[int, int]:
        """A producer id and its epoch."""
        key = ApiKey.INIT_PRODUCER_ID
        wanted = fields(
            transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
        )
        given = self._connection.request(key, PORTABLE[key], wanted)
        assert given.error_code == 0
        return given.producer_id, given.producer_epoch

    def produce(self, topic: str, batch: bytes | bytearray) -> tuple[int, int]:
        """Send one batch to partition 0 with acks=all; return error code and base offset."""
        wanted = Produce(topic, 0, batch, -1, 30_000)
        response = self._connection.exchange(
            lambda number: write_produce_request(_PRODUCE, number, _NAME, wanted)
        )
        produced = read_produce_response(_PRODUCE, response)
        return int(produced.error), produced.base_offset
