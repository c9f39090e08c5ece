"""`barnabas doctor` on brokers whose clock is ahead or behind, told or not."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ErrorCode
from barnabas.cli.client import ClusterClients
from barnabas.cli.doctor import clock_checks
from barnabas.cli.doctor.clock_checks import (
    MAX_SKEW_MS,
    Seen,
    Skew,
    check_clocks,
    decide_clocks,
    decide_skew,
)
from barnabas.cli.doctor.finding import Finding
from barnabas.cli.raw_client import RawClient, ask_cluster
from barnabas.testing import Cluster
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.describe_clock import DescribeClockResponse
from tests.cli.conftest import Barnabas
from tests.cli.scripted_cluster import scripted_cluster
from tests.support.broker import BrokerProcess
from tests.support.committing import committing

WRONG_BY_S = 600

# Every part of the process reads a clock that is set wrong.
SHIFTED = """
import time
shift_ns, read = {seconds} * 1_000_000_000, time.time_ns
time.time_ns = lambda: read() + shift_ns
time.time = lambda: time.time_ns() / 1e9
"""
BOTH_WAYS = pytest.mark.parametrize(
    ("seconds", "words"), [(-WRONG_BY_S, "behind"), (WRONG_BY_S, "ahead of")]
)

Shifted = Callable[[int], BrokerProcess]


@pytest.fixture
def shifted(tmp_path: Path) -> Iterator[Shifted]:
    """Start a process whose clock is wrong by so many seconds; the last one ends."""
    running: list[BrokerProcess] = []

    def start(seconds: int) -> BrokerProcess:
        while running:
            running.pop().stop()
        broker = BrokerProcess(tmp_path, prelude=SHIFTED.format(seconds=seconds))
        running.append(broker)
        broker.start()
        return broker

    yield start
    for broker in running:
        broker.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker reports its time, as brokers of Apache Kafka do not."""

    async def no(*_: object) -> bool:
        return False

    monkeypatch.setattr(clock_checks, "_is_barnabas", no)


def clocks(bootstrap: str, brokers: tuple[int, ...] = (0,), patience_s: float = 0) -> list[Finding]:
    _, metadata = ClusterClients(bootstrap, None).admin()

    async def check(client: RawClient) -> list[Finding]:
        return await check_clocks(client, brokers, metadata.topics, patience_s)

    return ask_cluster(bootstrap, check)


# -- brokers that report their time -----------------------------------------------


@BOTH_WAYS
def test_the_wrong_clock_of_a_broker_is_a_problem(
    seconds: int, words: str, shifted: Shifted, offline: Barnabas
) -> None:
    ended = offline("doctor", "--json", "-b", shifted(seconds).bootstrap)
    (found,) = (each for each in json.loads(ended.out)["findings"] if each["check"] == "clock")
    assert (ended.code, found["level"]) == (1, "problem")
    assert found["what"] == f"the clock of broker 0 is {WRONG_BY_S} s {words} this machine's"
    assert "NTP" in found["todo"]


def test_the_clocks_of_one_machine_do_not_differ(cluster: Cluster) -> None:
    assert clocks(cluster.bootstrap_servers, (0, 1)) == []


def test_a_clock_is_known_but_for_the_time_of_the_request(cluster: Cluster) -> None:
    before = SystemClock().now_ms()
    skew = ask_cluster(cluster.address(0), lambda client: clock_checks._ask_time(client, 0))
    assert skew is not None
    assert skew.low <= 0 <= skew.high
    assert skew.high - skew.low <= SystemClock().now_ms() - before


def test_a_broker_that_is_gone_is_left_to_other_checks(cluster: Cluster) -> None:
    assert clocks(cluster.bootstrap_servers, (0, 7)) == []


def test_a_broker_that_does_not_tell_this_user_is_not_checked() -> None:
    refused = DescribeClockResponse(error_code=ErrorCode.cluster_authorization_failed, time_ms=0)
    with scripted_cluster(1) as cluster:
        cluster.scripts[ApiKey.DESCRIBE_CLOCK] = lambda broker, request: refused
        (found,) = clocks(cluster.bootstrap)
        assert found.level == "unchecked"
        # As an older release does, which closes the connection.
        cluster.scripts[ApiKey.DESCRIBE_CLOCK] = lambda broker, request: None
        assert clocks(cluster.bootstrap) == [found]


@pytest.mark.parametrize("lacking", [ApiKey.LEADER_AND_ISR, ApiKey.DESCRIBE_TOPIC_PARTITIONS])
def test_apache_kafka_is_not_asked_for_what_it_does_not_know(lacking: ApiKey) -> None:
    """With ZooKeeper it lacks one of these APIs, without it the other."""
    with scripted_cluster(1) as cluster:
        cluster.unknown = (*cluster.unknown, lacking)
        clocks(cluster.bootstrap)
        assert cluster.requests("DescribeClockRequest") == []


# -- brokers that put their time on records -------------------------------------------


@BOTH_WAYS
def test_a_record_that_is_written_meanwhile_shows_a_wrong_clock(
    seconds: int, words: str, shifted: Shifted, untold: None
) -> None:
    bootstrap = shifted(seconds).bootstrap
    with committing(bootstrap):
        (found,) = clocks(bootstrap, patience_s=60)
    assert found.level == "problem"
    assert words in found.what
    assert re.search(rf" {WRONG_BY_S}| {WRONG_BY_S - 1}", found.what)


def test_records_of_a_right_clock_are_no_finding(shifted: Shifted, untold: None) -> None:
    bootstrap = shifted(0).bootstrap
    with committing(bootstrap):
        assert clocks(bootstrap, patience_s=60) == []


def test_without_records_a_clock_is_not_checked(shifted: Shifted, untold: None) -> None:
    broker = shifted(-WRONG_BY_S)
    (without_topic,) = clocks(broker.bootstrap)
    with committing(broker.bootstrap):
        pass
    (without_news,) = clocks(broker.bootstrap)
    assert without_topic == without_news
    assert without_news.level == "unchecked"
    assert "broker 0 reports no time" in without_news.what
    assert "consumer groups commit" in without_news.todo


def test_a_record_of_the_future_shows_that_a_clock_was_ahead(
    shifted: Shifted, untold: None
) -> None:
    with committing(shifted(WRONG_BY_S).bootstrap):
        pass
    (found,) = clocks(shifted(0).bootstrap)
    assert found.level == "problem"
    assert "is ahead, or was when it wrote it" in found.what


# -- decisions ----------------------------------------------------------------------


times = st.integers(0, 10_000)


@given(skew=st.integers(-100_000, 100_000), asked=times, written=times, answered=times)
def test_a_record_written_meanwhile_has_the_skew_within_its_bounds(
    skew: int, asked: int, written: int, answered: int
) -> None:
    asked, written, answered = sorted((asked, written, answered))
    found = decide_skew(Seen(7, asked), 7, written + skew, answered)
    assert found.low <= skew <= found.high
    assert not found.is_past


@given(skew=st.integers(-100_000, 100_000), asked=times, written=times, older=times)
def test_a_record_that_stays_the_latest_by_its_time_is_an_upper_bound(
    skew: int, asked: int, written: int, older: int
) -> None:
    """The record at 8 has an earlier time than that at 6, which another leader wrote."""
    asked, written = sorted((asked, written))
    found = decide_skew(Seen(7, asked), 6, written + skew + older, written)
    assert skew <= found.high
    assert found.low == Skew().low


def test_what_is_known_of_the_present_replaces_a_record_of_the_past() -> None:
    past = Skew(low=50_000, is_past=True)
    assert Skew().joined(past) == past
    assert past.joined(Skew(-10, 900)) == Skew(-10, 900)
    assert Skew(-10, 900).joined(past) == Skew(-10, 900)
    assert Skew(-10, 900).joined(Skew(-500, 5)) == Skew(-10, 5)
    assert past.joined(Skew(high=60_000)) == Skew(50_000, 60_000, is_past=True)


@pytest.mark.parametrize(
    ("skew", "is_known"),
    [
        (Skew(), False),
        (Skew(-100, 100), True),
        (Skew(-100, 900_000), False),
        (Skew(-900_000, 100), False),
        (Skew(5_000, 6_000), True),
        (Skew(high=-5_000), True),
        (Skew(low=5_000, is_past=True), False),
        (Skew(low=-100, high=100, is_past=True), False),
    ],
)
def test_a_clock_is_watched_until_more_would_change_nothing(skew: Skew, is_known: bool) -> None:
    assert skew.is_known == is_known


def test_the_network_is_no_wrong_clock() -> None:
    """A request that took a minute leaves a minute of doubt."""
    assert list(decide_clocks({0: Skew(-59_000, 1_000), 1: Skew(-1_000, 59_000)}, {})) == []
    assert list(decide_clocks({0: Skew(-MAX_SKEW_MS, -MAX_SKEW_MS)}, {})) == []


def test_a_wide_bound_says_that_it_may_be_more() -> None:
    behind, ahead = decide_clocks({1: Skew(-90_000, -60_000), 2: Skew(60_000, 90_000)}, {})
    assert behind.what == "the clock of broker 1 is 60 s or more behind this machine's"
    assert ahead.what == "the clock of broker 2 is 60 s or more ahead of this machine's"


def test_brokers_that_could_not_be_checked_are_named_at_once() -> None:
    (found,) = decide_clocks({}, {2: Skew(), 1: Skew(), 3: Skew(-1, 1)})
    assert found.what.startswith("brokers 1, 2 report no time,")
