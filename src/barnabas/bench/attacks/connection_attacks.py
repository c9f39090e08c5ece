"""Attacks by connections: too many, too slow, half closed, of other protocols."""

import asyncio
import socket
import struct
import time
from statistics import median
from typing import Final

from barnabas.bench.attacks.attack import Attack, Happened, Target
from barnabas.bench.attacks.attack_sockets import (
    HOST,
    asked,
    close_all,
    closed,
    connected,
    frame,
    send_all,
    until_closed,
)

API_VERSIONS: Final = frame(18, 0, b"")
SERVED_WITHIN_S: Final = 240.0
_DRIPPED: Final = struct.pack(">ihhih", 1000, 3, 1, 1, 100) + bytes(990)
# As a client behind TLS, one behind SASL, a browser and a port scanner begin.
OTHER_PROTOCOLS: Final = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506),
    frame(17, 1, struct.pack(">h", 5) + b"PLAIN"),
    struct.pack(">i", 12) + b"\0user\0secret",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\r\n\r\n",
)


def connect_in_a_row(target: Target) -> Happened:
    """All clients connect at once, as after a restart, and ask for ApiVersions."""
    seconds = asyncio.run(_connect_all(target.port, target.count))
    served = len(seconds)
    last = max(seconds, default=float("nan"))
    told = f"{served:,} served within {last:.1f} s (median {median(seconds or [last]):.1f} s)"
    return Happened(told, len(API_VERSIONS) * served, {"served": served, "seconds": last})


async def _connect_all(port: int, count: int) -> list[float]:
    """Seconds from the start until each client had its answer."""
    writers: list[asyncio.StreamWriter] = []
    start = time.perf_counter()

    async def client() -> float:
        reader, writer = await asyncio.open_connection(HOST, port)
        writers.append(writer)
        writer.write(API_VERSIONS)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        await reader.readexactly(size)
        return time.perf_counter() - start

    tasks = [asyncio.ensure_future(client()) for _ in range(count)]
    done, late = await asyncio.wait(tasks, timeout=SERVED_WITHIN_S)
    for task in late:
        task.cancel()
    for writer in writers:
        writer.transport.abort()
    return [task.result() for task in done if task.exception() is None]


def stay_idle(target: Target) -> Happened:
    """Connections that send nothing."""
    peers = []
    try:
        for number in range(target.count):
            peers.append(connected(target.port))
            if number % 1000 == 999:
                target.say(f"{number + 1:,} of {target.count:,} idle connections")
        time.sleep(target.hold_s)
        gone = closed(peers)
    finally:
        close_all(peers)
    return Happened(f"accepted {len(peers):,}, closed {gone:,}", 0, {"open": len(peers) - gone})


def stall(target: Target) -> Happened:
    """Connections that stop in the middle of a request of 128 KB."""
    peers = [connected(target.port) for _ in range(target.count)]
    half = struct.pack(">ihhih", 128 * 1024, 0, 9, 1, 0) + bytes(64 * 1024)
    try:
        for peer in peers:
            peer.sendall(half)
        gone, took_s = until_closed(peers, target.hold_s)
    finally:
        close_all(peers)
    told = f"closed {gone} of {target.count} within {took_s:.0f} s"
    return Happened(told, len(half) * target.count, {"closed": gone, "seconds": took_s})


def drip(target: Target) -> Happened:
    """Connections that send one byte of a request each second."""
    peers = [connected(target.port) for _ in range(target.count)]
    start, sent, number = time.perf_counter(), 0, 0
    try:
        while time.perf_counter() - start < target.hold_s and (gone := closed(peers)) < len(peers):
            begun = time.perf_counter()
            sent += send_all(peers, _DRIPPED[number : number + 1], 1, 0.5)
            number += 1
            time.sleep(max(0.0, 1.0 - (time.perf_counter() - begun)))
        gone, took_s = closed(peers), time.perf_counter() - start
    finally:
        close_all(peers)
    told = f"closed {gone} of {target.count} within {took_s:.0f} s"
    return Happened(told, sent, {"closed": gone, "seconds": took_s})


def half_close(target: Target) -> Happened:
    """Clients that close their sending side in the middle of a request."""
    peers = [connected(target.port) for _ in range(target.count)]
    try:
        for peer in peers:
            peer.sendall(API_VERSIONS[:6])
            peer.shutdown(socket.SHUT_WR)
        gone, took_s = until_closed(peers, target.hold_s)
    finally:
        close_all(peers)
    told = f"closed {gone:,} of {target.count:,} within {took_s:.1f} s"
    return Happened(told, 6 * target.count, {"closed": gone})


def other_protocols(target: Target) -> Happened:
    """TLS, SASL, HTTP and empty lines on a plaintext listener."""
    refused = 0
    for _ in range(target.count):
        for content in OTHER_PROTOCOLS:
            try:
                response = asked(target.port, content, 2.0)
                # A SaslHandshake gets a proper error.
                refused += response is None or response[:2] != b"\0\0"
            except TimeoutError:
                continue
    total = target.count * len(OTHER_PROTOCOLS)
    sent = target.count * sum(map(len, OTHER_PROTOCOLS))
    return Happened(f"refused {refused} of {total}", sent, {"refused": refused / total})


ATTACKS: Final = (
    Attack("connect 3000", "{count} clients that connect in a row", connect_in_a_row, 3_000, 300),
    Attack("connect 8000", "{count} clients that connect in a row", connect_in_a_row, 8_000, 600),
    Attack("idle", "{count} idle connections", stay_idle, 10_000, 500, hold_s=3.0),
    Attack("stall", "{count} connections that stall in the middle of a request",
           stall, 200, 20, hold_s=60.0),
    Attack("drip", "{count} connections that send one byte a second", drip, 200, 20, hold_s=60.0),
    Attack("half closed", "{count} connections half closed in the middle of a request",
           half_close, 1_000, 100),
    Attack("protocols", "TLS, SASL, HTTP and empty lines on the plaintext port, {count} of each",
           other_protocols, 20, 2),
)  # fmt: skip
