"""When a partition is asked for again after its leader complained."""

import logging
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.replication.follower.fetch_response import PASSING
from barnabas.replication.follower.fetch_state import FIRST_BACKOFF_S, Following
from tests.replication.following import QUICK, Setting, on_a_loop

OTHER = TopicPartition("payments", 3)
# Whatever waits so long, the test fails.
FOR_EVER = QUICK._replace(backoff_ms=600_000)


@pytest.mark.parametrize("code", [each for each in PASSING if each.name != "offset_out_of_range"])
@on_a_loop
async def test_a_fetch_is_retried_soon_while_the_leader_lacks_the_new_epoch(
    tmp_path: Path, code: ErrorCode
) -> None:
    async with Setting(tmp_path, FOR_EVER) as here:
        led = here.lead()
        led.append()
        led.errors += [code, code]
        here.follow(here.follower())
        await here.caught_up()


@on_a_loop
async def test_only_an_error_that_lasts_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas.fetcher")
    async with Setting(tmp_path, QUICK._replace(backoff_ms=50)) as here:
        led = here.lead()
        led.append()
        led.errors += [ErrorCode.unknown_topic_id] * 2
        here.follow(here.follower())
        await here.caught_up()
        assert not caplog.messages
        led.append()
        led.errors += [ErrorCode.unknown_topic_id] * 5
        here.leader.tell()
        await here.caught_up()
        assert len(caplog.messages) == 1


@on_a_loop
async def test_the_same_error_of_many_partitions_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas.fetcher")
    async with Setting(tmp_path, QUICK._replace(backoff_ms=20)) as here:
        partitions = [TopicPartition("payments", n) for n in range(5)]
        for partition in partitions:
            led = here.lead(partition)
            led.append()
            led.errors += [ErrorCode.unknown_topic_id]
            here.follow(here.follower(partition))
        await here.caught_up()
        assert caplog.messages == [
            "partitions not fetched count=5 first=payments-0 leader=1 why=unknown_topic_id"
        ]


@on_a_loop
async def test_a_partition_that_waits_does_not_wait_for_a_long_poll_of_others(
    tmp_path: Path,
) -> None:
    async with Setting(tmp_path, FOR_EVER._replace(wait_max_ms=600_000)) as here:
        here.lead()
        payments = here.lead(OTHER)
        payments.append()
        payments.errors.append(ErrorCode.not_leader_or_follower)
        here.follow(here.follower())
        here.follow(here.follower(OTHER))
        await here.caught_up()
        assert here.fetchers.statistics.connections_lost == 0


@on_a_loop
async def test_others_that_wait_make_a_follower_ask_no_more_often_than_every_first_backoff(
    tmp_path: Path,
) -> None:
    """Each of a thousand partitions that wait has its turn at another time."""
    async with Setting(tmp_path, QUICK._replace(backoff_ms=1, wait_max_ms=600_000)) as here:
        here.lead()
        payments = here.lead(OTHER)
        payments.append()
        payments.errors += [ErrorCode.not_leader_or_follower] * 5
        here.follow(here.follower())
        here.follow(here.follower(OTHER))
        await here.caught_up()
        assert min(each.max_wait_ms for each in here.leader.requests) >= 1000 * FIRST_BACKOFF_S


@on_a_loop
async def test_an_error_that_lasts_is_retried_less_and_less_often(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        following = Following(here.follower())
        waits = [_wait(following, passing=True) for _ in range(8)]
        assert waits[:3] == [FIRST_BACKOFF_S, 2 * FIRST_BACKOFF_S, 4 * FIRST_BACKOFF_S]
        assert waits[-2:] == [1.0, 1.0]
        following.on_served()
        assert _wait(following, passing=True) == FIRST_BACKOFF_S
        assert _wait(following, passing=False) == 1.0


@on_a_loop
async def test_no_wait_is_longer_than_the_broker_is_configured_to_wait(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        following = Following(here.follower())
        following.wait(5.0, FIRST_BACKOFF_S / 2, passing=True)
        assert following.not_before == 5.0 + FIRST_BACKOFF_S / 2


def _wait(following: Following, *, passing: bool) -> float:
    following.wait(0.0, 1.0, passing=passing)
    return following.not_before
