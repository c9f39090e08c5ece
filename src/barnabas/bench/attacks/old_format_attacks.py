"""Attacks with the message formats of Kafka 0.8 to 0.10, which a broker converts."""

import struct
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

from cramjam import gzip

from barnabas.base.errors import ErrorCode
from barnabas.bench.attacks.attack import MB, Attack, Happened, Target
from barnabas.bench.attacks.attack_run import PROBED
from barnabas.bench.attacks.attack_sockets import asked, frame, text
from barnabas.bench.attacks.bad_batches import batch, record
from barnabas.bench.attacks.reader_attacks import fill, never_reading
from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.wire.records.compression import Codec

COMPRESSED: Final = "compressed"
VERSIONS_PRODUCED: Final = (0, 1, 2)
VERSIONS_FETCHED: Final = (0, 1, 2, 3)
# Each of so many messages is 15 KB, and has a message of 15 MB in it: 2.3 MB are 2.3 GB.
MESSAGES: Final = 150
MESSAGE_BYTES: Final = 15 * MB
# Each of so many batches is some KB, and has 4 MB of records in it.
BATCHES: Final = 20
RECORDS: Final = 400
RECORD_BYTES: Final = 10_000
_FETCHED: Final = 50 * MB
_FETCHES: Final = 5


def message(value: bytes, codec: Codec = Codec.NONE) -> bytes:
    """A message of magic 0 without a key. Its CRC is right."""
    body = struct.pack(">bbii", 0, codec, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@cache
def _compressed_messages() -> bytes:
    compressed = bytes(gzip.compress(message(bytes(MESSAGE_BYTES))))
    return message(compressed, Codec.GZIP) * MESSAGES


def produce_compressed(target: Target) -> Happened:
    """All connections send a Produce of compressed messages at once, in the versions in turn."""
    messages = _compressed_messages()
    body = struct.pack(">hii", 1, 30_000, 1) + text(PROBED)
    body += struct.pack(">iii", 1, 0, len(messages)) + messages
    requests = [
        frame(0, VERSIONS_PRODUCED[number % len(VERSIONS_PRODUCED)], body)
        for number in range(target.count)
    ]
    with ThreadPoolExecutor(target.count) as clients:
        answers = Counter(clients.map(lambda request: _error_of(target, request), requests))
    told = ", ".join(f"{count} {name}" for name, count in sorted(answers.items()))
    facts = {"answered": target.count - answers["no answer"], "acknowledged": answers["NONE"]}
    return Happened(told, sum(map(len, requests)), facts)


def _error_of(target: Target, request: bytes) -> str:
    try:
        response = asked(target.port, request, target.hold_s)
    except TimeoutError:
        return "no answer"
    if response is None:
        return "closed"
    (code,) = struct.unpack_from(">h", response, 4 + 2 + len(PROBED) + 4 + 4)
    return ErrorCode(code).name.upper()


def fetch_compressed(target: Target) -> Happened:
    """Consumers with Fetch 0 to 3 of compressed records, which read no response."""
    create_topic(target.site.bootstrap, COMPRESSED, 1)
    records = b"".join(record(number, b"key", bytes(RECORD_BYTES)) for number in range(RECORDS))
    content = batch(bytes(gzip.compress(records)), count=RECORDS, codec=Codec.GZIP)
    fill(target, COMPRESSED, 0, content, BATCHES)
    requests = [
        _fetch(VERSIONS_FETCHED[number % len(VERSIONS_FETCHED)]) for number in range(target.count)
    ]
    sent, gone = never_reading(target, requests, _FETCHES)
    asked_mb = target.count * _FETCHES * _FETCHED // MB
    told = f"asked for {asked_mb:,} MB, closed {gone} of {target.count}"
    return Happened(told, sent, {"asked_bytes": asked_mb * MB, "closed": gone})


def _fetch(version: int) -> bytes:
    body = struct.pack(">iii", -1, 0, 0)
    body += struct.pack(">i", _FETCHED) if version >= 3 else b""
    body += struct.pack(">i", 1) + text(COMPRESSED)
    return frame(1, version, body + struct.pack(">iiqi", 1, 0, 0, _FETCHED))


ATTACKS: Final = (
    Attack("old produce", "{count} Produce 0 to 2 of 2.3 MB that decompress to 2.3 GB each",
           produce_compressed, 20, 3, hold_s=60.0),
    Attack("old fetch", "{count} consumers with Fetch 0 to 3 of compressed records that never read",
           fetch_compressed, 30, 5, hold_s=3.0),
)  # fmt: skip
