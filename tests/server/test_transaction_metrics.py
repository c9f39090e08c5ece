"""The metrics of a transaction coordinator, as `/metrics` shows them."""

from importlib import import_module
from pathlib import Path
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.raw import Insight, RawClient, request
from tests.server.test_prometheus import SERVED, scrape
from tests.server.test_transactional_produce import ID, add, producer, with_coordinator


async def metrics_of(insight: Insight) -> dict[str, float]:
    found = await scrape(insight)
    names = ("open", "oldest_seconds", "markers_waiting", "loading")
    return {name: found[f"barnabas_transactions_{name}",] for name in names}


async def commit(client: RawClient, pid: int, epoch: int) -> None:
    schema: Any = import_module("kio.schema.end_txn.v3.request")
    message = schema.EndTxnRequest(
        transactional_id=ID, producer_id=pid, producer_epoch=epoch, committed=True
    )
    answer = await client.ask(request(ApiKey.END_TXN, 3, message))
    assert answer.error_code is ErrorCode.none


def test_open_transactions_and_the_age_of_the_oldest_are_exported(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        pid, epoch = await producer(insight, client)
        idle = dict.fromkeys(("open", "oldest_seconds", "markers_waiting", "loading"), 0)
        assert await metrics_of(insight) == idle
        await add(client, pid, epoch, "t")
        while (found := await metrics_of(insight))["oldest_seconds"] == 0:
            assert found == {**idle, "open": 1}
        assert found == {**idle, "open": 1, "oldest_seconds": found["oldest_seconds"]}
        assert found["oldest_seconds"] < 60
        await commit(client, pid, epoch)
        while await metrics_of(insight) != idle:
            pass

    with_coordinator(tmp_path, scenario, **SERVED)
