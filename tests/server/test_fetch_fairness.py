"""Fetch from many partitions with the sizes that clients ask for: all of them are read together."""

from pathlib import Path

import pytest

from barnabas.bench.limits.java_fetcher import MIB, FetchAsked, FetchLimits
from tests.replication.leading import F2, ME
from tests.server.fairness import (
    FLOOR,
    JAVA,
    NEVER_MS,
    TOPIC,
    Reader,
    drain_as_java,
    fill,
    in_batches,
    levels,
    reader,
    served,
)
from tests.server.followed import BROKER, lead
from tests.server.raw import Insight, with_broker

BATCH = 16 * 1024


@pytest.mark.parametrize("slots", [1000, 0], ids=["with sessions", "without sessions"])
@pytest.mark.parametrize(
    ("partitions", "size"),
    [(1, 4 * MIB), (2, 4 * MIB), (6, 4 * MIB), (12, 3 * MIB), (50, 3 * MIB // 2)],
)
def test_the_java_consumer_drains_equal_partitions_together_and_never_waits_meanwhile(
    tmp_path: Path, partitions: int, size: int, slots: int
) -> None:
    """With Apache Kafka no fetch waits while the broker has data that the consumer lacks.

    An answer brings up to 1 MiB of each partition that is named, so that all of them are consumed
    in turns. Each partition needs `levels` fetches then. A broker that shares one answer among
    more partitions may need one more for each, and the first fetch names all of them:
    at most partitions * (levels + 1) + 1.
    """
    most = partitions * (levels(size, BATCH, JAVA) + 1) + 1

    async def scenario(insight: Insight) -> None:
        await fill(insight, [in_batches(size)] * partitions)
        reading = await reader(insight)
        result = await drain_as_java(reading, reading.ends(range(partitions)), JAVA, most)
        assert (result.needless_waits, result.hungry_waits) == (0, 0)
        assert result.drained, f"not after {most} fetches"

    with_broker(tmp_path, scenario, max_incremental_fetch_session_cache_slots=slots)


@pytest.mark.parametrize("is_session", [False, True], ids=["without a session", "in a session"])
@pytest.mark.parametrize("partitions", [6, 50])
def test_a_client_that_names_all_partitions_in_one_order_drains_them_together(
    partitions: int, is_session: bool
) -> None:
    """With default sizes (1 MiB of a partition, 50 MiB in all) Apache Kafka reads 50 abreast.

    So no partition is ever more than 1 MiB ahead of another. An answer has 1 MiB at least, or all
    that is left, so the fetches are at most the MiB of all partitions, and one more for each.
    """
    size = 2 * MIB
    with served([in_batches(size)] * partitions) as broker:
        per_batch = broker.ends[0] // (size // BATCH)

        async def drain() -> int:
            positions = dict.fromkeys(broker.ends, 0)
            asked = FetchAsked(positions, session_epoch=0 if is_session else -1)
            fetches = 0
            while positions != broker.ends:
                got = await broker.reader.fetch(asked, JAVA)
                moved = got.read(positions)
                left = sum(broker.ends[each] - positions[each] for each in positions)
                assert not got.waited
                assert got.size >= min(FLOOR, left // per_batch * BATCH)
                positions = positions | moved
                spread = max(positions.values()) - min(positions.values())
                assert spread // per_batch * BATCH <= MIB, f"after {fetches} fetches: {positions}"
                fetches += 1
                session = got.answer.session_id
                asked = FetchAsked(moved if session else positions, (), session, fetches)
                if not session:
                    asked = FetchAsked(positions)
            return fetches

        assert broker.run(drain()) <= partitions * size // FLOOR + partitions


@pytest.mark.parametrize("max_bytes", [1, 3 * BATCH, 10 * MIB])
def test_a_follower_of_many_partitions_gets_on_in_each_of_them(
    tmp_path: Path, max_bytes: int
) -> None:
    """In a session of n partitions, each that has more gets more in one of n fetches at the latest.

    Each fetch brings something of the first partition in the session's order that has any, and
    that one goes to the end. The first fetch opens the session and moves nothing: n + 1.
    """
    partitions, batches = 12, 6
    limits = FetchLimits(NEVER_MS, 1, max_bytes, MIB)

    async def scenario(insight: Insight) -> None:
        await fill(insight, [[BATCH] * batches] * partitions)
        for each in range(partitions):
            lead(insight, TOPIC, (ME, F2), partition=each)
        reading = await reader(insight)
        assert await most_passed_over(reading, partitions, limits) <= partitions
        assert all(insight.leader(TOPIC, n).high_watermark > 0 for n in range(partitions))

    with_broker(tmp_path, scenario, **BROKER)


async def most_passed_over(reading: Reader, partitions: int, limits: FetchLimits) -> int:
    """Follow until all is read; the most fetches in a row that left a partition with data out."""
    ends = reading.ends(range(partitions))
    positions = dict.fromkeys(ends, 0)
    passed = dict.fromkeys(ends, 0)
    asked = FetchAsked(positions, session_epoch=0)
    most = epoch = 0
    while positions != ends:
        got = await reading.fetch(asked, limits, replica_id=int(F2), leader_epoch=1)
        moved = got.read(positions)
        assert moved, "a fetch of partitions with data came back empty"
        assert not got.waited
        for each, position in positions.items():
            passed[each] = 0 if each in moved or position == ends[each] else passed[each] + 1
        most = max(most, *passed.values())
        positions = positions | moved
        epoch += 1
        asked = FetchAsked(moved, (), got.answer.session_id, epoch)
    await reading.fetch(asked, limits, replica_id=int(F2), leader_epoch=1)
    return most
