"""The steps of the demo, in the order they are told."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from rich.console import Console
from rich.table import Table

from barnabas.base.clock import SystemClock
from barnabas.cli.client import Cluster, admin, await_all
from barnabas.cli.demo_broker import BrokerProcess
from barnabas.cli.dumped import Damage, entry_as_text
from barnabas.cli.failures import CommandFailed
from barnabas.cli.positions import Kind, Positions, Start
from barnabas.cli.reading import Reader
from barnabas.cli.segment_dump import dump_segment
from barnabas.cli.show import show_time

TOPIC: Final = "orders"
PARTITIONS: Final = 3
CODECS: Final = ("none", "gzip", "snappy", "zstd")
PER_CODEC: Final = 5_000
RETRIED: Final = 500
FREEZE_S: Final = 2.0
AROUND_THE_KILL: Final = 20_000

# A retry comes after a second already, so that one is seen while the broker is frozen.
_STATISTICS_POLLS: Final = 50
_IMPATIENT: Final[Mapping[str, object]] = {
    "socket.timeout.ms": 1000,
    "request.timeout.ms": 1000,
    "statistics.interval.ms": 200,
}


class Story:
    """Tells and checks one step after the other against one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._console = Console(highlight=False)
        self._clock = SystemClock()
        self._acknowledged: Counter[bytes] = Counter()
        self._failed: list[KafkaError] = []
        self._timeouts = 0

    def tell(self) -> None:
        """All steps. Raises CommandFailed at the first whose claim does not hold."""
        steps: list[tuple[str, Callable[[], None]]] = [
            ("A broker starts", self._start),
            ("A topic", self._create_topic),
            ("Messages, compressed in several ways", self._produce),
            ("All of them again", self._consume),
            ("Back in time", self._seek),
            ("A retry that is not doubled", self._retry),
            ("kill -9, and nothing acknowledged is lost", self._kill),
            ("What is on the disk", self._look_at_files),
            ("What to try next", self._say_goodbye),
        ]
        for number, (title, step) in enumerate(steps, 1):
            self._console.print(f"\n[bold cyan]{number}. {title}[/]")
            step()

    def _say(self, text: str) -> None:
        self._console.print(f"   {text}", soft_wrap=True)

    def _check(self, holds: bool, claim: str) -> None:
        if not holds:
            raise CommandFailed(f"the demo failed: it does not hold that {claim}")
        self._console.print(f"   [green]✓[/] {claim}")

    def _start(self) -> None:
        self._say("[dim]$ barnabas server --listen 127.0.0.1:0 --data DIR[/]")
        begun = self._clock.now_ms()
        line = self._broker.start()
        self._say(line)
        self._check(True, f"it was ready after {self._clock.now_ms() - begun} ms")

    def _create_topic(self) -> None:
        self._say(f"[dim]$ barnabas topics create {TOPIC} --partitions {PARTITIONS}[/]")
        client, _ = self._cluster().admin()
        await_all(client.create_topics([admin.NewTopic(TOPIC, PARTITIONS, 1)]))
        _, metadata = self._cluster().admin()
        found = metadata.topics[TOPIC].partitions
        self._check(len(found) == PARTITIONS, f"{TOPIC} has {PARTITIONS} partitions with leaders")

    def _produce(self) -> None:
        self._say(f"[dim]$ generate-orders | barnabas produce {TOPIC} -z CODEC[/]")
        table = Table("codec", "messages", "messages/s", "bytes on disk", box=None, padding=(0, 3))
        for codec in CODECS:
            producer = self._producer({"compression.type": codec})
            before, begun = self._bytes_on_disk(), self._clock.now_ms()
            for i in range(PER_CODEC):
                self._send(producer, b'{"order": %d, "paid_with": "%s"}' % (i, codec.encode()))
            producer.flush()
            elapsed_ms = max(1, self._clock.now_ms() - begun)
            written = self._bytes_on_disk() - before
            table.add_row(
                codec, f"{PER_CODEC:,}", f"{PER_CODEC * 1000 // elapsed_ms:,}", f"{written:,}"
            )
        self._console.print(table)
        total = PER_CODEC * len(CODECS)
        self._check(
            self._acknowledged.total() == total and not self._failed,
            f"all {total:,} are acknowledged by all in-sync replicas",
        )

    def _consume(self) -> None:
        self._say(f"[dim]$ barnabas consume {TOPIC}[/]")
        self._check(
            self._read() == self._acknowledged,
            f"the {self._acknowledged.total():,} messages read are those that were sent",
        )

    def _seek(self) -> None:
        now = self._clock.now_ms()
        self._say(f"[dim]$ barnabas consume {TOPIC} -o s@{show_time(now)}[/]")
        late = [b"written after %d, number %d" % (now, i) for i in range(100)]
        producer = self._producer({})
        for value in late:
            self._send(producer, value)
        producer.flush()
        found = self._read(Start(Kind.SINCE, now))
        self._check(found == Counter(late), "reading from now on gives the 100 messages sent since")

    def _retry(self) -> None:
        self._say("The broker is frozen while messages are on their way. The producer gets no")
        self._say("answer and sends them again; when the broker wakes up, it finds them twice.")
        producer = self._producer({**_IMPATIENT, "stats_cb": self._on_statistics})
        values = [b"sent more than once, number %d" % i for i in range(RETRIED)]
        self._send(producer, values[0])
        producer.flush()
        self._broker.freeze()
        for value in values[1:]:
            self._send(producer, value)
        producer.flush(FREEZE_S)
        self._broker.thaw()
        producer.flush()
        for _ in range(_STATISTICS_POLLS):  # they come a moment later
            if self._timeouts:
                break
            producer.poll(0.2)
        self._check(
            self._timeouts > 0, "the producer waited a second, and sent what had no answer again"
        )
        found = self._read()
        self._check(
            all(found[value] == 1 for value in values),
            f"each of the {RETRIED} messages is in the log exactly once",
        )

    def _kill(self) -> None:
        producer = self._producer({})
        before = self._acknowledged.total()
        for i in range(AROUND_THE_KILL // 2):
            self._send(producer, b"around the kill, number %d" % i)
        while self._acknowledged.total() == before and not self._failed:
            producer.poll(0.01)
        self._broker.kill()
        acknowledged = self._acknowledged.total() - before
        self._say(f"SIGKILL, with {acknowledged:,} of {AROUND_THE_KILL // 2:,} acknowledged.")
        for i in range(AROUND_THE_KILL // 2, AROUND_THE_KILL):
            self._send(producer, b"around the kill, number %d" % i)
        begun = self._clock.now_ms()
        self._broker.start()
        self._say(
            f"Started again on the same folder: ready after {self._clock.now_ms() - begun} ms."
        )
        producer.flush()
        self._check(not self._failed, "the producer went on by itself, and all was acknowledged")
        found = self._read()
        self._check(
            not self._acknowledged - found,
            f"none of all {self._acknowledged.total():,} acknowledged messages is lost",
        )
        self._check(found == self._acknowledged, "none is there twice")

    def _look_at_files(self) -> None:
        self._say("Kafka's own format, file by file:")
        folder = self._broker.folder / f"{TOPIC}-0"
        for file in sorted(folder.iterdir()):
            self._say(f"{file.stat().st_size:>12,}  {folder.name}/{file.name}")
        segment = next(folder.glob("*.log"))
        self._say(f"[dim]$ barnabas log dump {folder.name}/{segment.name} | head -3[/]")
        dump = dump_segment(segment, int(segment.stem), records=False, deep=True)
        found = list(dump)
        for entry in found[:3]:
            if not isinstance(entry, Damage):
                self._console.print("   " + entry_as_text(entry), markup=False, soft_wrap=True)
        self._check(
            not any(isinstance(entry, Damage) for entry in found),
            f"every CRC and every record of its {len(found) - 1:,} batches is sound",
        )

    def _say_goodbye(self) -> None:
        self._broker.stop()
        for command, meaning in (
            ("barnabas server --data ./data", "a broker to keep, on 127.0.0.1:9092"),
            ("barnabas topics create orders --partitions 3", "then, in another terminal"),
            ("echo hello | barnabas produce orders", ""),
            ("barnabas consume orders --follow", "any Kafka client can do that too"),
            ("barnabas log dump ./data", "also while the broker runs"),
        ):
            self._say(f"{command:<46} [dim]{meaning}[/]")

    def _cluster(self) -> Cluster:
        return Cluster(self._broker.address, None)

    def _producer(self, settings: Mapping[str, object]) -> Producer:
        patient = {"enable.idempotence": True, "message.timeout.ms": 60_000}
        return self._cluster().producer({**patient, **settings})[0]

    def _send(self, producer: Producer, value: bytes) -> None:
        while True:
            try:
                producer.produce(TOPIC, value, on_delivery=self._on_delivery)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acknowledged[message.value() or b""] += 1
        else:
            self._failed.append(error)

    def _on_statistics(self, text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        self._timeouts = sum(broker["req_timeouts"] for broker in brokers)

    def _read(self, start: Start | None = None) -> Counter[bytes]:
        """How often each value is in the topic."""
        positions = Positions(start or Start(Kind.BEGINNING))
        reader = Reader(self._cluster(), TOPIC, [], positions, follow=False)
        try:
            return Counter(
                message.value() or b"" for batch in reader.batches() for message in batch
            )
        finally:
            reader.close()

    def _bytes_on_disk(self) -> int:
        return sum(file.stat().st_size for file in _segments(self._broker.folder))


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{TOPIC}-*/*.log"))
