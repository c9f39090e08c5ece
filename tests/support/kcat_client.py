"""The kcat client behind the tests' interface: every call is a process."""

import os
import select
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Final

from tests.support.clients import (
    BEGINNING,
    END,
    MAX_REQUEST_BYTES,
    PATIENCE_S,
    SHORT_POLL_MS,
    Client,
    Message,
    NextMessage,
    Refused,
    Stored,
)

KCAT: Final = shutil.which("kcat") or shutil.which("kafkacat")
ABSENT: Final = "kcat is not installed (apt-get install kcat)"

_DELIMITER: Final = "<end of message>"
_KEY_DELIMITER: Final = "<end of key>"
# Lengths before contents, so that contents may be anything; headers end with a unique mark.
_FORMAT: Final = r"%p %o %T %K %S \x1e%h\x1f\x1e%k%s"
_STARTS: Final = {BEGINNING: "beginning", END: "end"}
# librdkafka's names of the errors that kcat prints before it exits.
_CODES: Final = {"Message size too large": 10, "Broker failed to validate record": 87}


class KcatClient(Client):
    def lacks_codec(self, codec: str) -> str | None:
        if codec == "none" or codec in self._features():
            return None
        return f"kcat -V does not list {codec} among its features"

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        """Send all; kcat returns no offsets, and accepts no timestamps."""
        options = ["-P", "-t", topic, "-z", compression, "-D", _DELIMITER]
        options += ["-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}"]
        options += ["-X", f"message.max.bytes={MAX_REQUEST_BYTES}", "-X", "linger.ms=5"]
        for like, group in groupby(messages, _shared):
            assert like.timestamp is None, "kcat cannot give a timestamp"
            lines = [_line(message) for message in group]
            self.run([*options, *_shared_options(like)], b"".join(lines))
        return []

    @contextmanager
    def reading(
        self,
        topic: str,
        *,
        partitions: Sequence[int] = (0,),
        start: int = BEGINNING,
        isolation: str = "read_uncommitted",
        poll_ms: int = SHORT_POLL_MS,
    ) -> Iterator[NextMessage]:
        options = ["-C", "-u", "-q", "-t", topic, "-o", _STARTS.get(start, str(start))]
        options += ["-f", _FORMAT, "-X", f"isolation.level={isolation}"]
        options += ["-X", f"fetch.wait.max.ms={poll_ms}", "-X", "allow.auto.create.topics=true"]
        # Without a partition kcat reads the whole topic.
        options += ["-p", str(partitions[0])] if len(partitions) == 1 else []
        with subprocess.Popen(
            self.command(options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as process:
            try:
                yield _Output(process).next_message
            finally:
                process.kill()

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        # The output is `topic [partition] offset N`.
        answer = self.run(["-Q", "-t", f"{topic}:{partition}:{timestamp}"])
        offset = int(answer.split()[-1])
        return offset if offset >= 0 else None

    def run(self, options: Sequence[str], stdin: bytes = b"") -> str:
        """The output of kcat. Raises Refused if it exited because of a broker's error."""
        done = subprocess.run(
            self.command(options), input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
        )
        said = done.stderr.decode(errors="replace")
        for text, code in _CODES.items():
            if text in said:
                raise Refused(code, said)
        assert done.returncode == 0, said
        return done.stdout.decode(errors="surrogateescape")

    def command(self, options: Sequence[str]) -> list[str]:
        assert KCAT is not None, ABSENT
        return [KCAT, "-b", self.bootstrap, *options]

    def _features(self) -> list[str]:
        version = self.run(["-V"])
        return version.partition("builtin.features=")[2].rstrip(")\n ").split(",")


def _shared(message: Message) -> Message:
    """The properties that all messages of one run share, and whether key and value are null."""
    key, value = (None if field is None else b"any" for field in (message.key, message.value))
    return Message(value, key, message.headers, message.timestamp, message.partition)


def _line(message: Message) -> bytes:
    key = b"" if message.key is None else message.key + _KEY_DELIMITER.encode()
    return key + (message.value or b"") + _DELIMITER.encode()


def _shared_options(like: Message) -> list[str]:
    options = ["-p", str(like.partition)]
    if like.value is None:
        options += ["-Z"]
    if like.key is not None:
        options += ["-K", _KEY_DELIMITER]
    for name, value in like.headers:
        options += ["-H", name if value is None else f"{name}={os.fsdecode(value)}"]
    return options


class _Output:
    """Parses messages from kcat's standard output as they arrive."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self._process = process
        self._descriptor = process.stdout.fileno()
        self._buffer = b""

    def next_message(self) -> Stored:
        lengths = self._until(b" \x1e").split()
        partition, offset, timestamp, key_length, value_length = map(int, lengths)
        headers = _headers(self._until(b"\x1f\x1e"))
        key = self._field(key_length)
        value = self._field(value_length)
        return Stored(offset, Message(value, key, headers, timestamp, partition))

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._read_more()
        text, _, self._buffer = self._buffer.partition(mark)
        return text

    def _field(self, length: int) -> bytes | None:
        if length < 0:
            return None
        while len(self._buffer) < length:
            self._read_more()
        field, self._buffer = self._buffer[:length], self._buffer[length:]
        return field

    def _read_more(self) -> None:
        readable, _, _ = select.select([self._descriptor], [], [], PATIENCE_S)
        assert readable, "no message came"
        read = os.read(self._descriptor, 1 << 16)
        assert read, "kcat ended before the message came"
        self._buffer += read


def _headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs = (pair.partition(b"=") for pair in text.split(b",") if pair)
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
