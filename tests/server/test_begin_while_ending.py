"""A transaction that begins while the one before is ending: the coordinator waits a little."""

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.server.transactions import transaction_coordinator
from barnabas.testing import Cluster
from tests.server.admin.client import Client
from tests.server.admin.test_transactions import add, create, end, init


@pytest.mark.parametrize(
    ("waits_s", "delay_ms", "code"),
    [(30.0, 300, ErrorCode.none), (0.0, 60_000, ErrorCode.concurrent_transactions)],
)
def test_partitions_are_added_when_the_markers_come_soon(
    kafka: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    waits_s: float,
    delay_ms: int,
    code: ErrorCode,
) -> None:
    """T17: otherwise the client would wait for 20 ms between any two transactions"""
    monkeypatch.setattr(transaction_coordinator, "ENDED_WITHIN_S", waits_s)
    with Client("127.0.0.1", int(kafka.address(0).rpartition(":")[2])) as client:
        create(client, "orders")
        producer = init(client, "till")
        assert set(add(client, "till", producer, {"orders": (0,)}).values()) == {ErrorCode.none}
        kafka.delay_markers(delay_ms)
        assert end(client, "till", producer, version=4).error_code is ErrorCode.none
        codes = add(client, "till", producer, {"orders": (1,)})
    assert set(codes.values()) == {code}
