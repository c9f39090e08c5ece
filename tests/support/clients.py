"""One interface for the Kafka clients in tests; each client is used unmodified."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

BEGINNING: Final = -2
END: Final = -1

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# A client without progress for this long fails its test.
PATIENCE_S: Final = 20.0
# How long a fetch may wait at the broker; a client that waits for one partition fetches others
# only afterwards.
SHORT_POLL_MS: Final = 200
# Longer than any test waits: a test fails if a fetch completes only by its timeout.
LONG_POLL_MS: Final = 45_000
# The clients' own limits are lifted, so that the broker enforces its limits.
MAX_REQUEST_BYTES: Final = 8_000_000


class Refused(Exception):
    """The broker responded with an error; `code` is Kafka's error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Message:
    """A message to produce. Without a timestamp the client uses the current time."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """A consumed message with its offset and the type of its timestamp."""

    offset: int
    message: Message
    log_append_time: bool = False


NextMessage = Callable[[], Stored]


def stored(record: Any) -> Stored:
    """A consumed record of kafka-python, or of aiokafka, which has the same fields."""
    headers = tuple(record.headers)
    message = Message(record.value, record.key, headers, record.timestamp, record.partition)
    return Stored(record.offset, message, log_append_time=record.timestamp_type == 1)


@contextmanager
def refusals_of(kind: type[Any]) -> Iterator[None]:
    """Raise Refused for errors of the broker, which are of this kind."""
    try:
        yield
    except kind as error:
        raise Refused(error.errno, str(error)) from None


class Client(ABC):
    """A client that produces and consumes."""

    # True if its producer accepts a header without a value.
    sends_null_headers: ClassVar[bool] = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def lacks_codec(self, codec: str) -> str | None:
        """The client's reason why it cannot compress with `codec`, or None."""

    @abstractmethod
    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        """Send all, wait for all acknowledgements, return the offsets (with acks=0 none).

        Raises  Refused with the first error of the broker
        """

    @abstractmethod
    def reading(
        self,
        topic: str,
        *,
        partitions: Sequence[int] = (0,),
        start: int = BEGINNING,
        isolation: str = "read_uncommitted",
        poll_ms: int = SHORT_POLL_MS,
    ) -> AbstractContextManager[NextMessage]:
        """A consumer with these partitions assigned: each call waits for the next message."""

    @abstractmethod
    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        """The first offset whose message is not older than `timestamp`; None if there is none."""

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partitions: Sequence[int] = (0,),
        start: int = BEGINNING,
        isolation: str = "read_uncommitted",
    ) -> list[Stored]:
        """The first `count` messages from `start` on."""
        with self.reading(
            topic, partitions=partitions, start=start, isolation=isolation
        ) as next_message:
            return [next_message() for _ in range(count)]


class Admin(ABC):
    """A client's admin operations. Every method raises Refused with the broker's error."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None: ...

    @abstractmethod
    def delete_topic(self, name: str) -> None: ...

    @abstractmethod
    def topics(self) -> list[str]: ...

    @abstractmethod
    def leaders(self, name: str) -> dict[int, int]:
        """The leader of each partition."""

    @abstractmethod
    def add_partitions(self, name: str, total: int) -> None: ...

    @abstractmethod
    def configs(self, name: str) -> dict[str, str | None]:
        """Every config of a topic."""

    @abstractmethod
    def replace_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Set these configs; reset all others of the topic to their default."""

    @abstractmethod
    def delete_records(self, name: str, before: int, partition: int = 0) -> int:
        """Delete the messages before an offset; return the partition's first offset."""
