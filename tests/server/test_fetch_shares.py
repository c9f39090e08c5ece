"""How the bytes of an answer are shared among the partitions that have records."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.server.fetching import fetch_collector
from tests.server.raw import Insight, batch, fetch, with_broker
from tests.server.test_fetch import filled, offsets

BATCH = len(batch(bytes(1000)))  # as `filled` writes them


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [4, 4, 4]),
        ({"max_bytes": 12 * BATCH}, [4, 4, 4]),
        ({"max_bytes": 6 * BATCH}, [2, 2, 2]),
        ({"max_bytes": 5 * BATCH}, [1, 2, 2]),  # what a share has no room for goes to the next
        ({"max_bytes": 3 * BATCH}, [1, 1, 1]),
        ({"max_bytes": 2 * BATCH}, [1, 1, 0]),  # a share that is too small for a batch is one batch
        ({"max_bytes": 1}, [1, 0, 0]),  # however large it is
        ({"partition_max_bytes": 3 * BATCH}, [3, 3, 3]),
        ({"partition_max_bytes": 1}, [1, 0, 0]),
    ],
)
def test_partitions_share_what_an_answer_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: list[int]
) -> None:
    monkeypatch.setattr(fetch_collector, "LEAST_SHARE", 1)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=4)
        wanted = [("orders", index, 0) for index in range(3)]
        for epoch in (0, -1):  # with and without a session
            sent = fetch(*wanted, max_wait_ms=60_000, session_epoch=epoch, **options)
            (topic,) = (await client.ask(sent)).responses
            assert [len(offsets(partition)) for partition in topic.partitions] == expected

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize(("least", "expected"), [(1, [2, 2, 2]), (3, [3, 3, 0]), (9, [4, 2, 0])])
def test_a_share_is_no_smaller_than_what_clients_ask_of_a_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, expected: list[int]
) -> None:
    monkeypatch.setattr(fetch_collector, "LEAST_SHARE", least * BATCH)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=4)
        wanted = [("orders", index, 0) for index in range(3)]
        (topic,) = (await client.ask(fetch(*wanted, max_bytes=6 * BATCH))).responses
        assert [len(offsets(partition)) for partition in topic.partitions] == expected

    with_broker(tmp_path, scenario)


def test_what_one_partition_leaves_of_its_share_is_for_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_collector, "LEAST_SHARE", 1)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=4)
        wanted = [("orders", 0, 3), ("orders", 1, 4), ("orders", 2, 0)]
        (topic,) = (await client.ask(fetch(*wanted, max_bytes=5 * BATCH))).responses
        assert [offsets(partition) for partition in topic.partitions] == [[3], [], [0, 1, 2, 3]]

    with_broker(tmp_path, scenario)
