"""Prepared requests of transactions: all are committed once, and a wrong response ends the run."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.bench.compare.compare_cases import Case, Effort
from barnabas.bench.compare.compare_sites import Site, barnabas
from barnabas.bench.compare.transaction_cases import TRANSACTION_CASES, check_committed
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.limits.load_generator import LoadFailed
from barnabas.bench.limits.native_build import NoCompiler, program
from barnabas.bench.limits.prepared_transactions import (
    PATIENCE_S,
    Transactions,
    drive_transactions,
)
from barnabas.testing import Cluster

LITTLE = Effort(1, 1_000_000, 1.0, 100, 0.05, None)


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    try:
        program("transact")
    except NoCompiler as missing:
        pytest.skip(f"the client cannot be built here: {missing}")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        yield cluster


def run(
    kafka: Cluster, topic: str, connections: int, folder: Path, patience_s: float = PATIENCE_S
) -> Transactions:
    host, _, port = kafka.address(0).rpartition(":")
    return drive_transactions((host, int(port)), topic, connections, 0.2, folder, patience_s)


def test_every_transaction_is_committed_once(kafka: Cluster, tmp_path: Path) -> None:
    create_topic(kafka.bootstrap_servers, "several", 3)
    runs = [run(kafka, "several", 3, tmp_path) for _ in range(2)]
    committed = sum(len(each.took_us) for each in runs)
    assert committed >= 6
    assert all(0 < took < 1e6 * each.seconds for each in runs for took in each.took_us)
    check_committed(kafka.bootstrap_servers, "several", 3, committed)
    with pytest.raises(RecordsMissing, match=f"the log has {2 * committed}"):
        check_committed(kafka.bootstrap_servers, "several", 3, committed - 1)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
        ("Produce", "NOT_ENOUGH_REPLICAS"),
        ("EndTxn", "CONCURRENT_TRANSACTIONS"),
    ],
)
def test_what_is_refused_for_now_is_sent_again(
    kafka: Cluster, tmp_path: Path, api: str, error: str
) -> None:
    create_topic(kafka.bootstrap_servers, api, 1)
    kafka.fail_next(api, error, times=3)
    found = run(kafka, api, 1, tmp_path)
    assert found.refused == 3
    check_committed(kafka.bootstrap_servers, api, 1, len(found.took_us))


def test_a_refusal_that_does_not_pass_fails_the_run(tmp_path: Path) -> None:
    with Cluster(brokers=1) as kafka:
        create_topic(kafka.bootstrap_servers, "stuck", 1)
        kafka.fail_next("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", times=10**6)
        with pytest.raises(LoadFailed, match="AddPartitionsToTxn got error code 51 for 0"):
            run(kafka, "stuck", 1, tmp_path, patience_s=0.3)


def test_any_other_error_fails_the_run(kafka: Cluster, tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="AddPartitionsToTxn got error code 3"):
        run(kafka, "absent", 1, tmp_path)


def test_transactions_have_rows_in_which_the_client_does_little(tmp_path: Path) -> None:
    cases = [case for case in TRANSACTION_CASES if "requests prepared" in case.metrics[0].name]
    assert [[row.goal for row in case.metrics] for case in cases] == [[1.5, 1.0, None, None]] * 2
    assert [case.key for case in cases] == ["transactions prepared 1", "transactions prepared 10"]
    with barnabas().start(tmp_path, 1) as site:
        for case in cases:
            rate, commit_p99_ms, requests, client_percent = figures(case, site)
            assert rate > 0
            assert requests >= 3
            assert 0 < client_percent <= 100
            assert commit_p99_ms > 0


def figures(case: Case, site: Site) -> Sequence[float]:
    turns = case.measure(site, LITTLE)
    assert isinstance(turns, Generator)
    while True:
        try:
            next(turns)
        except StopIteration as over:
            found: Sequence[float] = over.value
            return found
