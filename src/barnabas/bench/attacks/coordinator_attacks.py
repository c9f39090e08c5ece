"""Attacks by state that a broker keeps for its clients: groups, topics, fetch sessions."""

import struct
import time
from collections import Counter
from contextlib import ExitStack
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.bench.attacks.attack import MB, Attack, Happened, Target
from barnabas.bench.attacks.attack_run import PROBED
from barnabas.bench.attacks.attack_sockets import answer, asked, close_all, connected, frame, text
from barnabas.client.fetch import Fetch, read_fetch_response, write_fetch_request
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic

METADATA_BYTES: Final = 500_000
SESSION_MS: Final = 6_000  # the least that brokers allow by default
ANSWERED_WITHIN_S: Final = 60.0
READY_WITHIN_S: Final = 60.0
_FETCH_VERSION: Final = 12
_ERRORS: Final = {int(code): code.name.upper() for code in ErrorCode}
_NOT_YET: Final = (14, 15, 16)  # the coordinator loads, is not there, or is another broker


def _join(group: str, metadata: bytes) -> bytes:
    """JoinGroup version 2, which asks for no member id first.

    Not of the type `consumer`: Kafka would parse the metadata, and never answer.
    """
    body = text(group) + struct.pack(">ii", SESSION_MS, SESSION_MS) + text("") + text("attack")
    body += struct.pack(">i", 1) + text("range") + struct.pack(">i", len(metadata)) + metadata
    return frame(11, 2, body)


def wait_for_coordinator(port: int) -> None:
    """Wait until the broker's group coordinator accepts members. Raises TimeoutError."""
    deadline = time.perf_counter() + READY_WITHIN_S
    while True:
        asked(port, frame(10, 0, text("first")), ANSWERED_WITHIN_S)
        joined = asked(port, _join("first", b""), ANSWERED_WITHIN_S)
        if joined is not None and struct.unpack_from(">h", joined, 4)[0] not in _NOT_YET:
            return
        if time.perf_counter() > deadline:
            raise TimeoutError("the group coordinator is not ready")
        time.sleep(0.2)


def join_groups(target: Target) -> Happened:
    """Members with 500 KB of metadata each, in groups of their own, which then fall silent."""
    wait_for_coordinator(target.port)
    peers = [connected(target.port) for _ in range(target.count)]
    answers: Counter[str] = Counter()
    try:
        for number, peer in enumerate(peers):
            peer.settimeout(ANSWERED_WITHIN_S)
            try:
                peer.sendall(_join(f"group-{number}", b"m" * METADATA_BYTES))
                joined = answer(peer, ANSWERED_WITHIN_S)
            except ConnectionError:
                joined = None
            code = None if joined is None else struct.unpack_from(">h", joined, 4)[0]
            answers["closed" if code is None else _ERRORS.get(code, str(code))] += 1
        time.sleep(SESSION_MS / 1e3 + 1)  # their sessions end
    finally:
        close_all(peers)
    told = ", ".join(f"{count} {'joined' if n == 'NONE' else n}" for n, count in answers.items())
    sent = METADATA_BYTES * target.count
    return Happened(told, sent, {"joined": answers["NONE"], "sent_bytes": sent})


def assign_much(target: Target) -> Happened:
    """The only member of a group assigns itself many megabytes."""
    wait_for_coordinator(target.port)
    group, assignment = "assigned", bytes(target.count * MB)
    with connected(target.port) as peer:
        peer.sendall(_join(group, b""))
        joined = answer(peer, ANSWERED_WITHIN_S) or b""
        (generation,) = struct.unpack_from(">i", joined, 6)
        (length,) = struct.unpack_from(">h", joined, _past_text(joined, _past_text(joined, 10)))
        at = _past_text(joined, _past_text(joined, 10)) + 2
        member = text(joined[at : at + length].decode())
        body = text(group) + struct.pack(">i", generation) + member + struct.pack(">i", 1)
        body += member + struct.pack(">i", len(assignment)) + assignment
        try:
            peer.sendall(frame(14, 1, body))
            synced = answer(peer, target.hold_s)
        except (ConnectionError, TimeoutError):
            synced = None
    code = None if synced is None else struct.unpack_from(">h", synced, 4)[0]
    told = "no answer" if code is None else _ERRORS.get(code, str(code))
    return Happened(told, len(body), {"answered": code is not None, "assigned": code == 0})


def create_by_metadata(target: Target) -> Happened:
    """One Metadata request that names topics which do not exist."""
    names = b"".join(text(f"auto-{number}") for number in range(target.count))
    request = frame(3, 4, struct.pack(">i", target.count) + names + b"\1")
    lines = _log_lines(target)
    start = time.perf_counter()
    with connected(target.port) as peer:
        peer.sendall(request)
        try:
            response = answer(peer, target.hold_s)
        except TimeoutError:
            response = None
    took_s = time.perf_counter() - start
    logged = _log_lines(target) - lines
    if response is None:
        told = f"no answer within {took_s:.0f} s, {logged:,} log lines"
        return Happened(told, len(request), {"answered": 0.0, "log_lines": logged})
    errors = _topic_errors(response)
    counts = ", ".join(f"{count:,} {_ERRORS.get(code, code)}" for code, count in errors.items())
    told = f"answered in {took_s:.1f} s ({counts}), {logged:,} log lines"
    facts = {"answered": 1.0, "seconds": took_s, "log_lines": float(logged)}
    return Happened(told, len(request), facts)


def _log_lines(target: Target) -> int:
    return target.broker.log.read_bytes().count(b"\n")


def _topic_errors(response: bytes) -> Counter[int]:
    """The error codes of the topics in a Metadata response, version 4."""
    (brokers,) = struct.unpack_from(">i", response, 4)
    at = 8
    for _ in range(brokers):
        at = _past_text(response, at + 4) + 4
        at = _past_text(response, at)
    at = _past_text(response, at) + 4
    (topics,) = struct.unpack_from(">i", response, at)
    at += 4
    found: Counter[int] = Counter()
    for _ in range(topics):
        found[struct.unpack_from(">h", response, at)[0]] += 1
        at = _past_text(response, at + 2) + 1
        (partitions,) = struct.unpack_from(">i", response, at)
        at += 4
        for _ in range(partitions):
            at += 10
            for _ in range(2):
                at += 4 + 4 * struct.unpack_from(">i", response, at)[0]
    return found


def _past_text(response: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", response, at)
    return at + 2 + max(0, int(length))


def fetch_sessions(target: Target) -> Happened:
    """Full fetches that each open a session, and never use it."""
    wanted = [FetchTopic(PROBED, None, [FetchPartition(0, 0, 1)])]
    fetch = Fetch(0, 0, 1, wanted, session_id=0, session_epoch=0)
    request = write_fetch_request(_FETCH_VERSION, 1, "attacker", fetch)
    opened = 0
    with ExitStack() as open_peers:
        for start in range(0, target.count, 500):
            peer = open_peers.enter_context(connected(target.port))
            for _ in range(start, min(start + 500, target.count)):
                peer.sendall(request)
                response = answer(peer, ANSWERED_WITHIN_S)
                if response is None:
                    break
                found = read_fetch_response(_FETCH_VERSION, memoryview(response))
                opened += found.session_id != 0
    told = f"opened {opened:,} of {target.count:,}"
    return Happened(told, len(request) * target.count, {"opened": opened})


ATTACKS: Final = (
    Attack("groups", "{count} JoinGroups of 500 KB each", join_groups, 300, 40),
    Attack("assigned", "one SyncGroup that assigns {count} MB", assign_much, 90, 30, hold_s=60.0),
    Attack("auto-create", "one Metadata request that auto-creates {count} topics",
           create_by_metadata, 20_000, 1_000, hold_s=60.0,
           properties={"auto.create.topics.enable": "true"}),
    Attack("fetch sessions", "{count} fetch sessions, opened and not used",
           fetch_sessions, 5_000, 1_500),
)  # fmt: skip
