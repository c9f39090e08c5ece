"""Consumer groups: the duration of a rebalance, and commits per second."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from types import SimpleNamespace
from typing import Final

import uvloop

from barnabas.bench.bench_plan import CONNECTIONS, WINDOW, Bench
from barnabas.bench.bench_report import ReportRow, Section, ratio_row
from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.bench.clusters.group_members import (
    PATIENCE_S,
    BenchMember,
    GroupFailed,
    ask,
    demand,
    until_coordinated,
)
from barnabas.bench.limits.load_messages import CLIENT_ID, TOPIC, numbered
from barnabas.bench.server_processes import broker
from barnabas.client.requests import read_response, write_request
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import Message

# Long enough for all members to join a new group.
OVERRIDES: Final = ("group.initial.rebalance.delay.ms=500",)
COMMITTED: Final = 1_000


def groups_section(bench: Bench) -> Section:
    with bench.scratch() as folder, broker(folder, *OVERRIDES) as server:
        create_topic(server.bootstrap, TOPIC, 1)
        rows = uvloop.run(_rows(bench, server.port))
    notes = (
        f"one broker, classic groups, a raw client that assigns at once; medians of"
        f" {bench.plan.repeat}",
        "rebalance: from the first JoinGroup until every member has its assignment, when all"
        " rejoin at once; how soon clients do that is their heartbeat's interval",
        f"commits: {CONNECTIONS} members of different groups, {WINDOW} requests in flight each, one"
        " partition a commit",
    )
    return Section("groups", "Consumer groups", "Barnabas", "Heartbeats", rows, notes)


async def _rows(bench: Bench, port: int) -> list[ReportRow]:
    await until_coordinated(port, "bench")
    rows = []
    for size in bench.plan.group_sizes:
        bench.say(f"groups: a rebalance of {size}")
        rows.append(await _rebalance_row(port, size, bench.plan.repeat))
    bench.say("groups: commits")
    rows.append(await _commit_row(port, bench.plan.run_seconds, bench.plan.repeat))
    return rows


# -- rebalances --------------------------------------------------------------


async def _rebalance_row(port: int, size: int, repeat: int) -> ReportRow:
    members = await _group(port, f"rebalanced-{size}", size)
    pairs = [await _rebalance(members, number) for number in range(1, repeat + 1)]
    _close(members)
    ours, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    return ratio_row(
        f"rebalance of {size} (two Heartbeats of each)",
        f"{1000 * ours:,.1f} ms",
        f"{1000 * theirs:,.1f} ms",
        median(pair[0] / pair[1] for pair in pairs),
        seconds=ours,
        heartbeats_seconds=theirs,
    )


async def _group(port: int, name: str, size: int) -> list[BenchMember]:
    """A stable group."""
    members = [await BenchMember.new(port, name) for _ in range(size)]
    await asyncio.gather(*(member.take_part(b"0") for member in members))
    return members


async def _rebalance(members: Sequence[BenchMember], number: int) -> tuple[float, float]:
    """Seconds of a rebalance, and of the same number of requests that change nothing."""
    start = time.perf_counter()
    await asyncio.gather(*(member.take_part(b"%d" % number) for member in members))
    balanced = time.perf_counter()
    if len({member.generation for member in members}) != 1:
        raise GroupFailed("members of one group came out of a rebalance in several generations")
    for _ in range(2):
        await asyncio.gather(*(member.heartbeat() for member in members))
    return balanced - start, time.perf_counter() - balanced


def _close(members: Sequence[BenchMember]) -> None:
    for member in members:
        member.peer.close()


# -- commits -----------------------------------------------------------------


async def _commit_row(port: int, seconds: float, repeat: int) -> ReportRow:
    members = [(await _group(port, f"committing-{n}", 1))[0] for n in range(CONNECTIONS)]
    commits, heartbeats = [], []
    for _ in range(repeat):
        commits.append(await _rate(members, ApiKey.OFFSET_COMMIT, seconds))
        heartbeats.append(await _rate(members, ApiKey.HEARTBEAT, seconds))
    for member in members:
        await _check_committed(member)
    _close(members)
    ratio = median(ours / theirs for ours, theirs in zip(commits, heartbeats, strict=True))
    return ratio_row(
        "OffsetCommit",
        f"{median(commits):,.0f}/s",
        f"{median(heartbeats):,.0f}/s",
        ratio,
        commits_per_second=median(commits),
        heartbeats_per_second=median(heartbeats),
    )


async def _rate(members: Sequence[BenchMember], key: ApiKey, seconds: float) -> float:
    """Responses per second, all members at once."""
    start = time.perf_counter()
    counts = await asyncio.gather(
        *(_repeat(member, key, start + seconds) for member in members for _ in range(WINDOW))
    )
    return sum(counts) / (time.perf_counter() - start)


async def _repeat(member: BenchMember, key: ApiKey, deadline: float) -> int:
    """Send one request after the other until the deadline; all responses must be equal."""
    frame = write_request(key, APIS[key].highest, 0, CLIENT_ID.decode(), _message(member, key))
    once = partial(member.peer.exchange, numbered(frame), PATIENCE_S)
    good = await once()
    _check(key, read_response(key, APIS[key].highest, good))
    count = 1
    while time.perf_counter() < deadline:
        if await once() != good:
            raise GroupFailed(f"{key.name} was answered otherwise than before")
        count += 1
    return count


def _message(member: BenchMember, key: ApiKey) -> Message:
    if key is ApiKey.HEARTBEAT:
        return SimpleNamespace(**member.identity)
    partition = SimpleNamespace(
        partition_index=0, committed_offset=COMMITTED, committed_metadata=""
    )
    topic = SimpleNamespace(name=TOPIC, partitions=(partition,))
    return SimpleNamespace(
        **member.identity, generation_id_or_member_epoch=member.generation, topics=(topic,)
    )


def _check(key: ApiKey, answer: Message) -> None:
    code = answer.error_code if key is ApiKey.HEARTBEAT else _only_partition(answer).error_code
    demand(code, key.name)


def _only_partition(answer: Message) -> Message:
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return partition


async def _check_committed(member: BenchMember) -> None:
    """Raises GroupFailed if an acknowledged commit is missing."""
    asked = SimpleNamespace(group_id=member.group, topics=None, member_id=None, member_epoch=-1)
    (group,) = (await ask(member.peer, ApiKey.OFFSET_FETCH, groups=(asked,))).groups
    demand(group.error_code, "OffsetFetch")
    found = _only_partition(group).committed_offset
    if found != COMMITTED:
        raise GroupFailed(f"{COMMITTED} was committed, but {found} was returned")
