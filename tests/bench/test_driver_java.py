"""The Java driver: parsing of the tools' output, and the contract."""

from collections.abc import Iterator

import pytest

from barnabas.bench.clusters.bench_topics import create_topic, log_end_offset
from barnabas.bench.compare.client_driver import ClientFailed, Driver, run
from barnabas.bench.compare.client_members import Readers
from barnabas.bench.compare.driver_java import java
from barnabas.bench.drivers.drive_java import consumed, mean_latency, produced, progress
from barnabas.bench.drivers.driver_program import MessagesMissing
from barnabas.bench.server_processes import Server, broker
from tests.bench.driver_contract import available

PRODUCED = """INFO ProducerConfig values: (org.apache.kafka.clients.producer.ProducerConfig)
12345 records sent, 2468.5 records/sec (2.35 MB/sec), 20.1 ms avg latency, 310.0 ms max latency.
60000 records sent, 59701.492537 records/sec (56.94 MB/sec), 320.44 ms avg latency, \
482.00 ms max latency, 334 ms 50th, 450 ms 95th, 474 ms 99th, 481 ms 99.9th.
"""
CONSUMED = """start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-17 19:53:29:112, 2026-11-17 19:53:38:220, 57.2205, 6.2824, 60000, 6587.6153, 3795, 5313, \
10.7699, 11293.0548
INFO App info kafka.consumer unregistered (org.apache.kafka.common.utils.AppInfoParser)
"""
PROGRESS = (
    "2026-11-17 19:53:45:861, 0, 6.8369, 613.3423, 7169, 643090.9091, 1794945225850,"
    " -1794945225839, 0.0000, 0.0000\n"
)
LATENCY = """0\t41.218
Avg latency: 4.4627 ms

Percentiles: 50th = 3, 99th = 18, 99.9th = 41
"""


def test_the_rate_of_a_producer_is_the_one_of_its_last_line() -> None:
    assert produced(PRODUCED) == {"seconds": pytest.approx(60000 / 59701.492537)}


def test_a_consumer_counts_from_when_it_joined_its_group() -> None:
    found = {"seconds": 5.313, "messages": 60000, "bytes": pytest.approx(60e6, rel=1e-5)}
    assert consumed(CONSUMED, 60000) == found


def test_a_consumer_that_gave_up_is_a_failure() -> None:
    with pytest.raises(MessagesMissing, match="60000 of 60001 messages came"):
        consumed(CONSUMED, 60001)


def test_a_tool_without_a_result_is_reported_with_its_output() -> None:
    said = "INFO starting\nERROR no such topic (x)\nINFO ended\n"
    for read in (produced, mean_latency, lambda output: consumed(output, 1)):
        with pytest.raises(MessagesMissing, match="ERROR no such topic"):
            read(said)
    with pytest.raises(MessagesMissing, match="no output"):
        produced("")


def test_progress_lines_are_recognized() -> None:
    assert progress(PROGRESS) == (7169, 7169009)
    assert progress("INFO 2026-11-17 nothing\n") is None


def test_the_mean_is_read_with_its_fractions() -> None:
    assert mean_latency(LATENCY) == {"mean_ms": 4.4627}


@pytest.fixture(scope="module")
def driver() -> Driver:
    return available(java())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with broker(tmp_path_factory.mktemp("java"), "group.initial.rebalance.delay.ms=0") as running:
        yield running


@pytest.fixture(scope="module")
def written(driver: Driver, server: Server) -> str:
    create_topic(server.bootstrap, "written", 2)
    spec = {"role": "produce", "partitions": 2, "messages": 3000, "message_bytes": 100}
    assert run(driver, {**spec, "bootstrap": server.bootstrap, "topic": "written"})["seconds"] > 0
    assert log_end_offset(server.bootstrap, "written", 2) == 3000
    return "written"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_it_reads_by_both_protocols(
    driver: Driver, server: Server, written: str, protocol: str
) -> None:
    spec = {"role": "consume", "bootstrap": server.bootstrap, "topic": written}
    found = run(driver, {**spec, "group": protocol, "messages": 3000, "protocol": protocol})
    assert found["messages"] == 3000
    assert found["bytes"] == pytest.approx(300_000, rel=1e-3)
    assert found["seconds"] > 0


def test_it_reports_its_progress_until_it_is_stopped(
    driver: Driver, server: Server, written: str
) -> None:
    spec = {"bootstrap": server.bootstrap, "topic": written, "group": "progress"}
    with Readers(driver, {**spec, "protocol": "classic"}).running() as readers:
        readers.start(1)
        progress = readers.wait_for(1000)
    assert progress == sorted(progress)
    assert 1000 <= progress[-1][1] <= 3000


def test_it_measures_the_mean_latency(driver: Driver, server: Server) -> None:
    create_topic(server.bootstrap, "latency", 1)
    spec = {"role": "latency", "bootstrap": server.bootstrap, "topic": "latency"}
    found = run(driver, {**spec, "message_bytes": 100, "rate": 100, "seconds": 0.5})
    assert found["messages"] == 50
    assert found["mean_ms"] > 0


def test_an_unsupported_role_is_reported_in_one_line(driver: Driver) -> None:
    with pytest.raises(ClientFailed, match=r'unknown role "unheard"$'):
        run(driver, {"role": "unheard", "bootstrap": "127.0.0.1:1"})
