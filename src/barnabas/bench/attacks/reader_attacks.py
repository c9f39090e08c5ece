"""Attacks by consumers that ask for much, of the page cache or the disk, and read no response."""

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.bench.attacks.attack import MB, Attack, Happened, Target
from barnabas.bench.attacks.attack_sockets import asked, close_all, connected, send_all
from barnabas.bench.attacks.bad_batches import batch, record
from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.client.fetch import Fetch, write_fetch_request
from barnabas.client.produce import Produce, write_produce_request
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic

FILLED: Final = "filled"
COLD: Final = "cold"
COLD_BATCHES: Final = 8
STALLED_S: Final = 2.0  # without a byte accepted, the broker reads no more
_FETCHES: Final = 200


def fill(target: Target, topic: str, partition: int, content: bytes, batches: int) -> None:
    """Append the same batch several times. Raises RuntimeError if the broker refuses it."""
    produce = Produce(topic, partition, content, 1, 30_000)
    for _ in range(batches):
        if asked(target.port, write_produce_request(9, 1, "attacker", produce), 30.0) is None:
            raise RuntimeError(f"{topic} cannot be filled")


def never_reading(target: Target, requests: Sequence[bytes], each: int) -> tuple[int, int]:
    """Each connection sends its requests in a row and reads nothing.

    Returns the number of bytes that the sockets accepted, and of connections that were closed.
    """
    peers = [connected(target.port) for _ in requests]
    try:
        sent = sum(
            send_all([peer], request * each, each * len(request), 0.05)
            for peer, request in zip(peers, requests, strict=True)
        )
        time.sleep(STALLED_S + target.hold_s)
        gone = sum(_is_reset(peer) for peer in peers)
    finally:
        close_all(peers)
    return sent, gone


def _is_reset(peer: socket.socket) -> bool:
    return peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def never_read(target: Target) -> Happened:
    """Consumers that send fetch after fetch of 1 MB and read no response."""
    create_topic(target.site.bootstrap, FILLED, 1)
    fill(target, FILLED, 0, batch(record(0, b"key", b"v" * (MB // 2))), 2)
    fetch = _fetch(FILLED, 0, MB)
    sent, gone = never_reading(target, [fetch] * target.count, _FETCHES)
    asked_mb = sent // len(fetch)
    told = f"accepted requests for {asked_mb:,} MB, closed {gone} of {target.count}"
    return Happened(told, sent, {"asked_bytes": asked_mb * MB, "closed": gone})


def never_read_cold(target: Target) -> Happened:
    """Consumers that each fetch a partition of their own from the disk, and read no response."""
    create_topic(target.site.bootstrap, COLD, target.count)
    content = batch(record(0, b"key", b"v" * (MB - 1_000)))
    for partition in range(target.count):
        fill(target, COLD, partition, content, COLD_BATCHES)
    evict(target, COLD)
    most = COLD_BATCHES * MB
    fetches = [_fetch(COLD, partition, most) for partition in range(target.count)]
    sent, gone = never_reading(target, fetches, 2)
    asked_mb = target.count * most // MB
    told = f"asked for {asked_mb:,} MB on the disk, closed {gone} of {target.count}"
    return Happened(told, sent, {"asked_bytes": asked_mb * MB, "closed": gone})


def _fetch(topic: str, partition: int, most: int) -> bytes:
    wanted = [FetchTopic(topic, None, [FetchPartition(partition, 0, most)])]
    return write_fetch_request(12, 1, "attacker", Fetch(0, 0, most, wanted))


def evict(target: Target, topic: str) -> None:
    """Write the segments of a topic to the disk, and drop them from the page cache."""
    advise: Callable[[int, int, int, int], None] | None = getattr(os, "posix_fadvise", None)
    for path in target.broker.data.glob(f"**/{topic}-*/*.log"):
        with path.open("rb+") as segment:
            os.fsync(segment.fileno())
            if advise is not None:
                advise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


ATTACKS: Final = (
    Attack("never read", "{count} consumers that fetch 200 MB each and never read",
           never_read, 50, 5, hold_s=3.0),
    Attack("never read cold", "{count} consumers that fetch 8 MB each from the disk and never"
           " read", never_read_cold, 30, 5, hold_s=3.0),
)  # fmt: skip
