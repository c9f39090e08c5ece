"""The records written to a Kafka broker, so that its files have every feature of the format."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from tests.golden.topics import CODECS, TOPICS
from tests.support.clients import Message
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient
from tests.support.waiting import until

BASE_TIME: Final = 1_700_000_000_000
PATIENCE_S: Final = 60.0

# Records with and without every field.
FEATURES: Final = (
    Message(b"value", b"key", (("header", b"1"), ("header", b"2")), BASE_TIME),
    Message(None, b"tombstone", (), BASE_TIME + 1),
    Message(b"no key", None, (("null", None), ("empty", b"")), BASE_TIME + 2),
    Message(None, None, (), BASE_TIME + 3),
    Message(b"", b"", (), BASE_TIME + 4),
    Message(bytes(range(32, 256)), b"\xff\x00", ((" \u00e4\u4e16", b"\xff"),), BASE_TIME + 5),
    Message(b"older than those before", b"key", (), BASE_TIME - 1_000_000),
)


def numbered(count: int, size: int = 20, *, start: int = 0) -> list[Message]:
    """Messages with increasing timestamps, except for every seventh."""
    return [
        Message(
            b"%0*d" % (size, n), b"key-%d" % n, (), BASE_TIME + n * 10 - (500 if n % 7 == 6 else 0)
        )
        for n in range(start, start + count)
    ]


class Workload:
    """Writes through one broker, which may be restarted in between."""

    def __init__(self, bootstrap: str, data: Path) -> None:
        self.client = ConfluentClient(bootstrap)
        self.admin = ConfluentAdmin(bootstrap)
        self.bootstrap = bootstrap
        self.data = data

    def create(self) -> None:
        for name, configs in TOPICS.items():
            self.admin.create_topic(name, 1, configs)

    def first(self) -> None:
        """In the first leader epoch: codecs, segments, compaction, transactions."""
        for codec in CODECS:
            self.client.produce("produced", FEATURES, compression=codec)
            self.client.produce(
                "produced", numbered(20, 30 if codec == "none" else 3000), compression=codec
            )
        for codec in CODECS[1:]:
            self.client.produce(f"recompressed-{codec}", FEATURES)
            self.client.produce(f"recompressed-{codec}", numbered(40, 3000))
        self.one_by_one("segments", numbered(80))
        self.one_by_one("append-time", [Message(b"%d" % n, timestamp=BASE_TIME) for n in range(10)])
        self.one_by_one("deleted", numbered(80))
        self.client.produce("preallocated", numbered(30))
        for codec in ("none", "lz4", "zstd"):
            now = [message_now(n) for n in range(10)]
            self.client.produce("idempotent", now, compression=codec, idempotent=True)
        self.transactions()
        for topic in ("compacted", "compacted-twice"):
            self.compactable(topic)

    def one_by_one(self, topic: str, messages: Sequence[Message]) -> None:
        """Each in its own batch, by one producer."""
        self._send({}, topic, messages, flush_each=True)

    def transactions(self) -> None:
        """Two producers in turn: committed, aborted, interleaved."""
        first, second = self.transactional("first"), self.transactional("second")
        for number in range(6):
            first.begin_transaction()
            second.begin_transaction()
            for producer, name in ((first, "first"), (second, "second"), (first, "again")):
                for part in range(3):
                    producer.produce("transactions", f"{name}-{number}-{part}", key=name)
                producer.flush(PATIENCE_S)
            (first.abort_transaction if number % 3 == 0 else first.commit_transaction)()
            (second.abort_transaction if number % 2 else second.commit_transaction)()

    def transactional(self, name: str) -> Any:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": name, "linger.ms": 0}
        )
        producer.init_transactions(PATIENCE_S)
        return producer

    def begin_and_leave_open(self) -> Any:
        producer = self.transactional("left-open")
        producer.begin_transaction()
        producer.produce("transactions", b"undecided", key=b"open")
        producer.flush(PATIENCE_S)
        return producer

    def compactable(self, topic: str) -> None:
        """Repeated keys, tombstones, and a producer whose last record is compacted away."""
        self._send({"enable.idempotence": True}, topic, [message_now(0, b"overwritten")])
        again = [message_now(n, b"kept" if n == 7 else b"key-%d" % (n % 5)) for n in range(40)]
        self._send({"compression.type": "gzip"}, topic, again[:20])
        self._send({}, topic, again[20:], flush_each=True)
        gone = [Message(None, b"key-%d" % n) for n in (1, 3)]
        self._send({}, topic, [*gone, message_now(1, b"overwritten")], flush_each=True)
        filling = [message_now(n, b"filling-%d" % n) for n in range(30)]
        self._send({}, topic, filling, flush_each=True)

    def _send(
        self, settings: Mapping[str, object], topic: str, messages: Sequence[Message], *,
        flush_each: bool = False,
    ) -> None:  # fmt: skip
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **settings})
        for message in messages:
            producer.produce(topic, message.value, message.key, 0, timestamp=message.timestamp or 0)
            if flush_each:
                assert producer.flush(PATIENCE_S) == 0
        assert producer.flush(PATIENCE_S) == 0

    def second(self) -> None:
        """In a later leader epoch: more of all, and the result of maintenance."""
        self.one_by_one("segments", numbered(40, start=80))
        self.one_by_one("produced", FEATURES)
        self.admin.delete_records("deleted", 33)
        self.wait("old segments go", lambda: len(list(self.data.glob("deleted-0/*.log"))) <= 4)
        self.wait("compaction", lambda: self.cleaned("compacted") > 60)
        self.wait("compaction", lambda: self.cleaned("compacted-twice") > 60)
        self.compactable("compacted-twice")
        self.wait("another", lambda: self.cleaned("compacted-twice") > 110)

    def third(self) -> None:
        """In the last leader epoch, before the broker is killed."""
        self.one_by_one("segments", numbered(30, start=120))
        for start in (30, 50):  # the second one rolls a new segment
            self.client.produce("preallocated", numbered(20, 200, start=start))
        self.client.produce("idempotent", [message_now(n) for n in range(3)], idempotent=True)

    def cleaned(self, topic: str) -> int:
        """The offset up to which the broker has compacted a topic."""
        checkpoint = self.data / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} ")), 0)

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        until(holds, what, PATIENCE_S)


def message_now(number: int, key: bytes | None = None) -> Message:
    """Without a timestamp: Kafka forgets producers whose last timestamp is old."""
    return Message(b"value-%d" % number, key if key is not None else b"key-%d" % number)
