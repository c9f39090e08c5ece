"""Replication throttles: which replicas, and how fast, by Kafka's windows."""

import pytest

from barnabas.base.ids import BrokerId
from barnabas.replication.replication_throttle import (
    ReplicationThrottle,
    WindowedRate,
    decide_throttled,
)

ME = BrokerId(2)


class Now:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [
        (("*",), None),
        ((), set()),
        (("0:2", "1:3", "7:2"), {0, 7}),
        (("0:1", "1:1"), set()),
        (("",), set()),
    ],
)
def test_the_list_of_a_topic_names_partitions_by_broker(
    replicas: tuple[str, ...], throttled: set[int] | None
) -> None:
    assert decide_throttled(replicas, ME) == throttled


def test_a_throttle_applies_to_its_listed_partitions() -> None:
    throttle = ReplicationThrottle(ME, Now())
    throttle.set_topic("some", ("0:2", "3:1"))
    throttle.set_topic("all", ("*",))
    assert [throttle.is_throttled("some", n) for n in (0, 3)] == [True, False]
    assert throttle.is_throttled("all", 17)
    assert not throttle.is_throttled("other", 0)
    throttle.set_topic("all", ())
    assert not throttle.is_throttled("all", 17)


def test_without_a_rate_nothing_is_ever_exceeded() -> None:
    throttle = ReplicationThrottle(ME, Now())
    throttle.record(2**62)
    assert not throttle.is_exceeded


def test_the_first_second_counts_as_a_whole_one() -> None:
    now = Now()
    rate = WindowedRate(now)
    rate.record(500)
    assert rate.per_second() == 500
    now.seconds += 0.5
    assert rate.per_second() == 500
    now.seconds += 1.5
    assert rate.per_second() == 250


def test_a_steady_stream_is_measured_right_and_a_pause_lets_it_fall() -> None:
    now = Now()
    throttle = ReplicationThrottle(ME, now)
    throttle.bytes_per_second = 1000
    for _ in range(300):
        throttle.record(100)
        now.seconds += 0.1
    assert throttle.per_second() == pytest.approx(1000, rel=0.1)
    for _ in range(100):
        throttle.record(200)
        now.seconds += 0.1
    assert throttle.is_exceeded
    now.seconds += 13
    assert throttle.per_second() == 0
    assert not throttle.is_exceeded
