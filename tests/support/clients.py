"""What the tests ask of every Kafka client, in one vocabulary; each client is used unmodified."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Final

BEGINNING: Final = -2
END: Final = -1

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# A client that hears nothing for so long fails its test.
PATIENCE_S: Final = 20.0
# How long a fetch may wait at the broker; a client that waits for one partition asks for others
# only afterwards.
SHORT_POLL_MS: Final = 200
# Far beyond our patience: whoever waits for a fetch to time out, instead of being woken, fails.
LONG_POLL_MS: Final = 45_000
# The limits of the clients are out of the way, so that it is the broker that judges.
MAX_REQUEST_BYTES: Final = 8_000_000


class Refused(Exception):
    """The broker answered with an error; `code` is Kafka's number for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Message:
    """What a producer gives. Without a timestamp the client takes the time of now."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """What a consumer gets: the message with its offset, and whose time its timestamp is."""

    offset: int
    message: Message
    log_append_time: bool = False


NextMessage = Callable[[], Stored]


class Client(ABC):
    """A client that produces and consumes."""

    # Whether its producer takes a header without a value.
    sends_null_headers: ClassVar[bool] = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def lacks_codec(self, codec: str) -> str | None:
        """Why this client cannot compress with `codec`, as the client itself tells; or None."""

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
        """Send all, wait for all acknowledgements, tell the offsets (with acks 0: nothing).

        Raises  Refused with the first error that the broker answered
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
    """A client's administration of topics. Every method raises Refused as the broker answers."""

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
        """Set these configs; all others of the topic have their default again."""

    @abstractmethod
    def delete_records(self, name: str, before: int, partition: int = 0) -> int:
        """Delete the messages before an offset; tells the partition's first offset."""
