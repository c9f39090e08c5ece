"""Single records sent to a cluster, each acknowledged or refused before the next step."""

from typing import Any

from confluent_kafka import Producer

from tests.chaos.load import IMPATIENT
from tests.support.clients import PATIENCE_S
from tests.support.cluster import until


class Sending:
    """A record in flight; `offset` and `error` are None until its response."""

    def __init__(
        self, bootstrap: str, topic: str, value: bytes, *, partition: int = 0, acks: str = "all"
    ) -> None:
        self.offset: int | None = None
        self.error: str | None = None
        self._producer = Producer(
            {
                **IMPATIENT,
                "bootstrap.servers": bootstrap,
                "acks": acks,
                "retries": 0,
                "request.timeout.ms": 30_000,
                "socket.timeout.ms": 40_000,
                "message.timeout.ms": 60_000,
            }
        )
        self._producer.produce(topic, value, partition=partition, on_delivery=self._delivered)

    @property
    def is_decided(self) -> bool:
        self._producer.poll(0)
        return self.offset is not None or self.error is not None

    def acknowledged(self) -> int:
        """Wait for the record's offset."""
        until(lambda: self.is_decided, "an answer", 2 * PATIENCE_S)
        assert self.offset is not None, self.error
        return self.offset

    def refused(self) -> str:
        """Wait for the name of its error."""
        until(lambda: self.is_decided, "an answer", 2 * PATIENCE_S)
        assert self.error is not None, f"acknowledged at {self.offset}"
        return self.error

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.error = error.name()
        else:
            self.offset = message.offset()
