"""How the bytes of an answer are shared among the partitions that have records."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.server import fetch_collector
from tests.server.raw import Insight, batch, fetch, with_broker
from tests.server.test_fetch import filled, offsets

BATCH = len(batch(bytes(1000)))  # as `filled` writes them


def shares(monkeypatch: pytest.MonkeyPatch, good: int, least: int) -> None:
    monkeypatch.setattr(fetch_collector, "GOOD_RECORDS", 1)
    monkeypatch.setattr(fetch_collector, "LEAST_BYTES", good)
    monkeypatch.setattr(fetch_collector, "MOST_BYTES", 10**9)
    monkeypatch.setattr(fetch_collector, "LEAST_SHARE", least)


@pytest.mark.parametrize(
    ("good", "least", "options", "expected"),
    [
        (3 * BATCH, 1, {}, [1, 1, 1]),
        (1, 1, {}, [1, 1, 1]),  # a share that is too small for a batch is one batch
        (6 * BATCH, 1, {}, [2, 2, 2]),
        (1, 2 * BATCH, {}, [2, 2, 2]),  # so much of each however many there are
        (100 * BATCH, 1, {}, [4, 4, 4]),
        (3 * BATCH, 1, {"min_bytes": 6 * BATCH}, [2, 2, 2]),  # a client that asks for more
        (100 * BATCH, 1, {"max_bytes": 5 * BATCH}, [4, 1, 0]),  # never more than it asks for
        (6 * BATCH, 1, {"max_bytes": 3 * BATCH}, [2, 1, 0]),
        (100 * BATCH, 1, {"partition_max_bytes": 3 * BATCH}, [3, 3, 3]),
    ],
)
def test_partitions_share_what_an_answer_carries(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    good: int,
    least: int,
    options: dict[str, Any],
    expected: list[int],
) -> None:
    shares(monkeypatch, good, least)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=4)
        wanted = [("orders", index, 0) for index in range(3)]
        for epoch in (0, -1):  # with and without a session
            sent = fetch(*wanted, max_wait_ms=60_000, session_epoch=epoch, **options)
            (topic,) = (await client.ask(sent)).responses
            assert [len(offsets(partition)) for partition in topic.partitions] == expected

    with_broker(tmp_path, scenario)


def test_what_one_partition_leaves_of_its_share_is_for_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares(monkeypatch, 6 * BATCH, 1)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=4)
        wanted = [("orders", 0, 3), ("orders", 1, 4), ("orders", 2, 0)]
        (topic,) = (await client.ask(fetch(*wanted))).responses
        assert [offsets(partition) for partition in topic.partitions] == [[3], [], [0, 1, 2, 3]]

    with_broker(tmp_path, scenario)


def test_a_partition_alone_gives_all_that_its_limit_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares(monkeypatch, 1, 1)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=4)
        wanted = [("orders", 0, 4), ("orders", 1, 0), ("orders", 2, 4)]
        (topic,) = (await client.ask(fetch(*wanted))).responses
        assert [len(offsets(partition)) for partition in topic.partitions] == [0, 4, 0]

    with_broker(tmp_path, scenario)
