"""The parts of the demo, without a cluster: ledger, claims and plots."""

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.clock import machine_stopwatch
from barnabas.base.ports import free_port
from barnabas.demo.demo_cluster import DemoCluster
from barnabas.demo.demo_pipeline import REVENUE, LiveQuery
from barnabas.demo.demo_proof import Logged, counted, decide_claims, decide_same_bytes
from barnabas.demo.demo_report import Events, failover_gap, write_report
from barnabas.demo.demo_results import Freshness, LiveResults
from barnabas.demo.demo_sales import Gap, Ledger, Till, Total
from barnabas.demo.demo_table import DemoTable, read_table
from barnabas.demo.shop import Order, Shop
from barnabas.spark.table.table_audit import TableAudit
from tests.spark.conftest import create_topic, produce
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

ORDERS = list(islice(Shop(50, 3).orders(), 400))


@pytest.fixture
def ledger() -> Ledger:
    """400 orders sold in 40 seconds, none between the 10th and the 15th."""
    made = Ledger()
    for order in ORDERS:
        made.sent += 1
        now_s = order.number / 10
        made.note(order, order.number % 2, now_s, now_s + (5 if 10 < now_s < 15 else 0.01))
    return made


def logged(ledger: Ledger) -> Logged:
    return Logged(ledger.sent, ledger.sent, 0, ledger.sent - 1, ledger.total.cents)


def rows_of(ledger: Ledger) -> list[tuple[datetime, str, int, int]]:
    """As Spark gives them: without a time zone."""
    return [
        (minute.replace(tzinfo=None), category, total.orders, total.cents)
        for (minute, category), total in ledger.revenue.items()
    ]


def test_the_ledger_adds_up_by_minute_and_category(ledger: Ledger) -> None:
    assert ledger.total == Total(400, sum(order.cents for order in ORDERS))
    window = ORDERS[0].minute, ORDERS[0].category
    alike = [order for order in ORDERS if (order.minute, order.category) == window]
    assert ledger.revenue[window] == Total(len(alike), sum(order.cents for order in alike))


def test_the_longest_gap_of_a_partition_is_recorded() -> None:
    ledger = Ledger()
    for now_s in (1.0, 1.5, 6.0, 6.5):
        ledger.note(ORDERS[0], 4, now_s, now_s)
    ledger.note(ORDERS[0], 5, 0.0, 3.0)
    assert failover_gap(ledger) == Gap(4, 1.5, 6.0)


def test_all_claims_hold_when_everything_was_counted_once(ledger: Ledger) -> None:
    found = counted(rows_of(ledger))
    claims = decide_claims(ledger, logged(ledger), found, found)
    assert [claim.text for claim in claims if not claim.holds] == []


def lose_a_window(rows: list[Any]) -> None:
    rows.pop()


def write_a_window_twice(rows: list[Any]) -> None:
    rows.append(rows[0])


def split_a_window(rows: list[Any]) -> None:
    minute, category, orders, cents = rows.pop()
    rows.extend([(minute, category, 1, 0), (minute, category, orders - 1, cents)])


def swap_a_cent(rows: list[Any]) -> None:
    for number, change in ((0, 1), (1, -1)):
        minute, category, orders, cents = rows[number]
        rows[number] = (minute, category, orders, cents + change)


@pytest.mark.parametrize(
    "spoil", [lose_a_window, write_a_window_twice, split_a_window, swap_a_cent]
)
def test_a_claim_fails_when_the_results_are_not_those_acknowledged(
    ledger: Ledger, spoil: Callable[[list[Any]], None]
) -> None:
    rows = rows_of(ledger)
    spoil(rows)
    good, bad = counted(rows_of(ledger)), counted(rows)
    assert not all(claim.holds for claim in decide_claims(ledger, logged(ledger), bad, good))
    assert not all(claim.holds for claim in decide_claims(ledger, logged(ledger), good, bad))


@pytest.mark.parametrize(
    "change", [{"orders": 401}, {"distinct": 399, "orders": 399}, {"last": 400}, {"cents": 1}]
)
def test_a_claim_fails_when_the_log_is_not_what_was_acknowledged(
    ledger: Ledger, change: dict[str, int]
) -> None:
    found = counted(rows_of(ledger))
    claims = decide_claims(ledger, logged(ledger)._replace(**change), found, found)
    assert not all(claim.holds for claim in claims)


def test_a_claim_fails_when_an_order_was_not_acknowledged(ledger: Ledger) -> None:
    ledger.sent += 1
    found = counted(rows_of(ledger))
    assert not all(claim.holds for claim in decide_claims(ledger, logged(ledger), found, found))


def test_different_bytes_on_one_broker_are_detected(tmp_path: Path) -> None:
    for broker in range(3):
        folder = tmp_path / f"broker-{broker}" / "data" / "orders-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(b"same")
    assert decide_same_bytes(tmp_path).holds
    (folder / f"{0:020}.log").write_bytes(b"else")
    assert not decide_same_bytes(tmp_path).holds
    (folder / f"{0:020}.log").unlink()
    assert not decide_same_bytes(tmp_path).holds
    assert not decide_same_bytes(tmp_path / "nothing").holds


def test_the_till_waits_for_unacknowledged_orders() -> None:
    """Nobody listens there: nothing is acknowledged, however long it sells."""
    till = Till(f"127.0.0.1:{free_port()}", Shop(5_000, 1), 5_000, 120, machine_stopwatch)
    selling = threading.Thread(target=till.sell, args=(60,))
    selling.start()
    try:
        while till.open_s < 1:
            threading.Event().wait(0.05)
        assert till.ledger.sent == 120
        assert till.ledger.acknowledged == 0
    finally:
        till.stop()
        selling.join()


def test_freshness_is_the_time_from_sending_an_order_to_its_result() -> None:
    sent_s = [0.0, 1.0, 2.0, 3.0]
    freshness = Freshness(sent_s)
    assert (freshness.counted, freshness.median_s, freshness.longest_s) == (0, 0.0, 0.0)
    freshness.note(2, 1.52)
    assert (freshness.counted, freshness.longest_s) == (2, 1.52)
    freshness.note(9, 3.31)  # a result may be here before the acknowledgement
    assert freshness.counted == 4
    assert str(freshness) == "p50 0.5 s, max 1.5 s"


class StoppedQuery:
    """A query that is active until it is stopped."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._ended = threading.Event()

    def processAllAvailable(self) -> None:
        self.calls.append("processed")

    def awaitTermination(self, timeout_s: float) -> None:
        self._ended.wait(timeout_s)

    def stop(self) -> None:
        self.calls.append("stopped")
        self._ended.set()


def test_the_query_is_stopped_when_all_orders_are_counted() -> None:
    query = StoppedQuery()
    live = LiveQuery(lambda: query)
    thread = threading.Thread(target=live.run)
    thread.start()
    assert live.is_live.wait(60)
    live.complete()
    thread.join()
    live.stop()
    assert query.calls == ["processed", "processed", "stopped"]


def table_of(ledger: Ledger, problems: list[str]) -> DemoTable:
    audit = TableAudit(ledger.sent, ledger.sent, problems, [])
    rows = [(0, 7, 12, "books")]
    columns = ("partition", "offset", "order", "category")
    return DemoTable(Path("orders"), audit, counted(rows_of(ledger)), columns, rows)


def test_the_table_is_summed_up_without_the_opening_message(ledger: Ledger, tmp_path: Path) -> None:
    rows = [Shop(50, 3).opening(), *ORDERS]
    columns = {
        "partition": [0] * len(rows),
        "offset": list(range(len(rows))),
        "order": [each.number for each in rows],
        "time": [each.time for each in rows],
        "category": [each.category for each in rows],
        "cents": [each.cents for each in rows],
    }
    import_module("deltalake").write_deltalake(
        str(tmp_path / "orders"), import_module("pyarrow").table(columns)
    )
    table = read_table(tmp_path / "orders", TableAudit(401, 401, [], []))
    assert (table.revenue.revenue, table.revenue.twice) == (ledger.revenue, 0)
    assert table.columns == tuple(columns)
    assert [row[2] for row in table.first] == [0, 1, 2, 3, 4]


def test_the_latest_result_of_each_key_counts(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, REVENUE)
    seen: list[int] = []
    results = LiveResults(broker.bootstrap, 1, seen.append)
    thread = threading.Thread(target=results.follow)
    thread.start()
    try:
        for category, orders in (("opening", 1), ("books", 2), ("games", 3), ("books", 7)):
            value = json.dumps({"category": category, "orders": orders}).encode()
            produce(broker.bootstrap, REVENUE, [{"key": category.encode(), "value": value}])
        until(lambda: seen[-1:] == [10], "the results to count ten orders")
    finally:
        results.close()
        thread.join()


def test_a_table_that_differs_from_the_log_refutes_the_claim(ledger: Ledger) -> None:
    assert table_of(ledger, []).claim.holds
    assert not table_of(ledger, ["orders-0, offsets 0 to 1000: 1 row is missing"]).claim.holds


def test_the_report_holds_all_plots_the_table_and_the_proof(tmp_path: Path, ledger: Ledger) -> None:
    table, freshness = table_of(ledger, []), Freshness(ledger.sent_s)
    freshness.note(400, 42.0)
    claims = decide_claims(ledger, logged(ledger), table.revenue, table.revenue)
    events = Events(1, frozenset({0}), 10.0, 20.0, 25.0, [(1.0, 9, 2), (45.0, 400, 400)])
    path = tmp_path / "new" / "report.html"
    write_report(path, ledger, events, freshness, claims, table)
    text = path.read_text()
    assert text.count("<svg") == 4
    assert "Every acknowledged order was counted exactly once: 400 orders" in text
    assert text.count('class="good"') == len(claims)
    assert "SIGKILL for broker 1" in text
    assert "max 42.0 s" in text
    assert "<th>category</th>" in text
    assert "src=" not in text
    failed = [claims[0]._replace(holds=False), *claims[1:]]
    write_report(path, ledger, replace(events), freshness, failed, table)
    text = path.read_text()
    assert "The proof FAILED" in text
    assert text.count('class="bad"') == 1


def test_times_without_a_zone_are_taken_for_utc() -> None:
    found = counted([(datetime(2026, 5, 4, 9, 1), "books", 2, 300)])
    assert found.revenue == {(datetime(2026, 5, 4, 9, 1, tzinfo=UTC), "books"): Total(2, 300)}


def test_an_order_has_its_minute() -> None:
    order = Order(1, datetime(2026, 5, 4, 9, 1, 59, 999, tzinfo=UTC), 1, "books", 1)
    assert order.minute == datetime(2026, 5, 4, 9, 1, tzinfo=UTC)


def test_a_cluster_is_stopped_though_a_signal_came_as_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    cluster = DemoCluster(tmp_path / "cluster")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who began us may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.launch()
    finally:
        signal.signal(signal.SIGINT, before)
        cluster.stop()

    assert [process.poll() is None for process in started] == [False]
