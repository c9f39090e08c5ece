"""Requests about transactions, captured as they reach brokers, so that they may arrive again."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from barnabas.wire.apis import ApiKey

CAPTURED: Final = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS)
_MOST_KEPT: Final = 32
_SMALLEST: Final = 14  # size, header and the length of the client's id


@dataclass(frozen=True, slots=True)
class CapturedRequest:
    """A whole request frame, and the broker that it reached."""

    key: ApiKey
    broker: str
    frame: bytes


@dataclass(slots=True)
class RequestCapture:
    """The last requests about transactions that reached brokers."""

    before: Callable[[str, str, bytes], None]
    keys: tuple[ApiKey, ...] = CAPTURED
    kept: deque[CapturedRequest] = field(default_factory=lambda: deque(maxlen=_MOST_KEPT))
    # Called before the broker has the request.
    on_captured: Callable[[CapturedRequest], None] | None = None

    def arrived(self, source: str, target: str, data: bytes) -> None:
        """Keep the data if it is one whole frame of these APIs."""
        self.before(source, target, data)
        if len(data) < _SMALLEST or int.from_bytes(data[:4]) != len(data) - 4:
            return
        number = int.from_bytes(data[4:6])
        if number in self.keys and target.startswith("broker-"):
            self.kept.append(CapturedRequest(ApiKey(number), target, data))
            if self.on_captured is not None:
                self.on_captured(self.kept[-1])
