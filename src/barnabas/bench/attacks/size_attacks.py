"""Attacks by sizes: announced, claimed or sent, larger than a broker should believe or keep."""

import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from barnabas.bench.attacks.attack import MB, Attack, Happened, Target
from barnabas.bench.attacks.attack_run import PROBED
from barnabas.bench.attacks.attack_sockets import (
    answer,
    asked,
    close_all,
    closed,
    connected,
    frame,
    send_all,
    text,
)

ANNOUNCED: Final = 100 * MB
SENT_EACH: Final = 20 * MB
NAMED: Final = 100_000  # elements of one request
MANY: Final = 90_000  # the same, where 100,000 are the most
STALLED_S: Final = 2.0  # without a byte accepted, the broker reads no more
MOST: Final = 2**31 - 1
SIZES: Final = (MOST, 512 * MB, -1, -(2**31), 0, 3)
_COUNT = struct.pack(">i", MOST)
_PRODUCE_HEAD: Final = struct.pack(">ihhih", ANNOUNCED, 0, 9, 1, 8) + b"attacker\0"


def announce(target: Target) -> Happened:
    """Each connection announces a Produce of 100 MB, sends a fifth of it, and stalls."""
    peers = [connected(target.port) for _ in range(target.count)]
    try:
        start = time.perf_counter()
        for peer in peers:
            peer.sendall(_PRODUCE_HEAD)
        sent = send_all(peers, bytes(256 * 1024), SENT_EACH, STALLED_S)
        took_s = time.perf_counter() - start
        time.sleep(target.hold_s)
        gone = closed(peers)
    finally:
        close_all(peers)
    told = f"read {sent / MB:,.0f} MB in {took_s:.1f} s, closed {gone} of {target.count}"
    return Happened(told, sent, {"sent_bytes": sent, "closed": gone})


def strange_sizes(target: Target) -> Happened:
    """Requests whose size is negative, tiny, or larger than any that the broker accepts."""
    refused = 0
    for size in SIZES:
        for _ in range(target.count):
            with connected(target.port) as peer:
                peer.sendall(struct.pack(">i", size) + b"\0" * 3)
                try:
                    refused += answer(peer, 5.0) is None
                except TimeoutError:
                    continue
    total = len(SIZES) * target.count
    return Happened(f"closed {refused} of {total}", 7 * total, {"refused": refused / total})


def _claims() -> list[bytes]:
    """Requests whose array claims 2^31 - 1 elements and has none."""
    group = text("group")
    return [
        frame(0, 3, struct.pack(">hhi", -1, 1, 1000) + _COUNT),  # Produce
        frame(1, 4, struct.pack(">iiiib", -1, 0, 1, MB, 0) + _COUNT),  # Fetch
        frame(2, 1, struct.pack(">i", -1) + _COUNT),  # ListOffsets
        frame(3, 1, _COUNT),  # Metadata
        frame(3, 9, b"\xff\xff\xff\xff\x0f", tagged=True),  # Metadata, a compact array
        frame(8, 2, group + struct.pack(">i", -1) + text("") + struct.pack(">q", -1) + _COUNT),
        frame(9, 1, group + _COUNT),  # OffsetFetch
        frame(11, 0, group + struct.pack(">i", 10_000) + text("") + text("consumer") + _COUNT),
        frame(15, 0, _COUNT),  # DescribeGroups
        frame(19, 2, _COUNT),  # CreateTopics
        frame(20, 1, _COUNT),  # DeleteTopics
        frame(32, 1, _COUNT),  # DescribeConfigs
    ]


def claimed_arrays(target: Target) -> Happened:
    claims = _claims()
    refused = unanswered = 0
    for _ in range(target.count):
        for request in claims:
            try:
                refused += asked(target.port, request, 5.0) is None
            except TimeoutError:
                unanswered += 1
    total = len(claims) * target.count
    left = f", left {unanswered} without an answer" if unanswered else ""
    answered = total - refused - unanswered
    told = f"closed {refused} of {total}{left}" + (f", answered {answered}" if answered else "")
    return Happened(told, target.count * sum(map(len, claims)), {"unanswered": unanswered})


def client_ids(target: Target) -> Happened:
    """ApiVersions from clients that each have another id of 32 KB, on a few connections."""
    filler, sent, served = b"x" * 32_000, 0, 0
    for start in range(0, target.count, 500):
        with connected(target.port) as peer:
            for number in range(start, min(start + 500, target.count)):
                request = frame(18, 0, b"", client_id=filler + str(number).encode())
                peer.sendall(request)
                sent += len(request)
                if answer(peer, 30.0) is None:
                    break
                served += 1
    told = f"answered {served:,} of {target.count:,}"
    return Happened(told, sent, {"served": served, "sent_bytes": sent})


def offsets_at_once(target: Target) -> Happened:
    """Each connection asks for the offsets of one partition, 100,000 times in a request."""
    partitions = struct.pack(">i", NAMED) + struct.pack(">iq", 0, -1) * NAMED
    request = frame(2, 1, struct.pack(">ii", -1, 1) + text(PROBED) + partitions)
    return _asked_at_once(target, request)


def configs_at_once(target: Target) -> Happened:
    """Each connection asks for the properties of one topic, 10,000 times in a request."""
    resource = struct.pack(">b", 2) + text(PROBED) + struct.pack(">i", -1)
    body = struct.pack(">i", NAMED // 10) + resource * (NAMED // 10) + b"\1\1"
    return _asked_at_once(target, frame(32, 3, body))


def added_at_once(target: Target) -> Happened:
    """Each connection adds 90,000 partitions of one topic to a transaction, in a request."""
    partitions = struct.pack(f">i{MANY}i", MANY, *range(MANY))
    head = text("attacker") + struct.pack(">qhi", 1, 0, 1) + text(PROBED)
    return _asked_at_once(target, frame(24, 0, head + partitions))


def deleted_at_once(target: Target) -> Happened:
    """Each connection deletes records of 90,000 partitions that are not there, in a request."""
    partitions = b"".join(struct.pack(">iq", each, 0) for each in range(1, MANY + 1))
    body = struct.pack(">i", 1) + text(PROBED) + struct.pack(">i", MANY) + partitions
    return _asked_at_once(target, frame(21, 0, body + struct.pack(">i", 1000)))


def _asked_at_once(target: Target, request: bytes) -> Happened:
    """All connections send the request, then read what comes back."""
    with ThreadPoolExecutor(target.count) as clients:
        sizes = list(clients.map(lambda _: _size_of_answer(target, request), range(target.count)))
    answers = [size for size in sizes if size is not None]
    told = f"answered {len(answers)} of {target.count}, {max(answers, default=0) / MB:,.1f} MB each"
    return Happened(told, len(request) * target.count, {"answered": len(answers)})


def _size_of_answer(target: Target, request: bytes) -> int | None:
    try:
        response = asked(target.port, request, target.hold_s)
    except TimeoutError:
        return None
    return None if response is None else len(response)


ATTACKS: Final = (
    Attack("announced", "{count} connections announce 100 MB, send 20 MB each and stall",
           announce, 20, 4, hold_s=3.0),
    Attack("sizes", "requests of 2 GB, 512 MB, -1, -2^31, 0 and 3 bytes, {count} of each",
           strange_sizes, 20, 2),
    Attack("arrays", "arrays that claim 2^31 - 1 elements, 12 APIs, {count} of each",
           claimed_arrays, 50, 2),
    Attack("offsets at once", "{count} connections that ask for 100,000 offsets each at once",
           offsets_at_once, 30, 3, hold_s=120.0),
    Attack("configs at once", "{count} requests that name one topic's properties 10,000 times",
           configs_at_once, 10, 2, hold_s=120.0),
    Attack("added at once", "{count} requests that add 90,000 partitions to a transaction each",
           added_at_once, 30, 3, hold_s=120.0),
    Attack("deleted at once", "{count} requests that delete records of 90,000 partitions each",
           deleted_at_once, 30, 3, hold_s=120.0),
    Attack("client ids", "{count} requests, each with another client id of 32 KB",
           client_ids, 10_000, 500),
)  # fmt: skip
