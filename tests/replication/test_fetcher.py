"""Fetchers: a follower's log becomes its leader's, over a real socket, whatever comes between."""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from tests.log.batches import CONFIG, append, batch_with_repeated_offset
from tests.replication.following import ORDERS, QUICK, Setting, bytes_of, fill_led, on_a_loop, until

OTHER = TopicPartition("payments", 3)
DISK_FULL = DiskFault("/data", OSError(errno.ENOSPC, "no space left"))


@on_a_loop
async def test_a_new_follower_copies_the_log_and_learns_what_is_committed(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead(epoch=3)
        fill_led(led, 200)
        follower = here.follow(here.follower(epoch=3))
        await until(lambda: follower.high_watermark == 200)
        assert bytes_of(follower.log) == bytes_of(led.log)
        assert follower.log.epochs.entries == ((3, 0),)
        assert follower.lag == max(here.fetchers.lags().values()) == 0
        assert here.fetchers.lags() == {ORDERS: 0}
        assert here.fetchers.statistics.bytes_in == led.log.size_bytes
        assert here.moved[-1] == ORDERS
        led.append(5)
        here.leader.tell()
        await until(lambda: follower.high_watermark == 205)


@on_a_loop
async def test_a_due_flush_is_done_before_the_next_fetch_reports_the_log_end(
    tmp_path: Path,
) -> None:
    async with Setting(tmp_path, config=replace(CONFIG, flush_messages=3)) as here:
        led = here.lead()
        follower = here.follower()
        asked: list[int] = []
        here.offload.before = lambda: asked.append(len(here.leader.requests))
        led.append(2)
        here.follow(follower)
        await until(lambda: len(here.leader.requests) == 2)
        assert (follower.log.log_end_offset, follower.log.recovery_point, asked) == (2, 0, [])
        led.append(1)
        here.leader.tell()
        await until(lambda: len(here.leader.requests) == 3)
        assert (follower.log.log_end_offset, follower.log.recovery_point, asked) == (3, 3, [2])


@on_a_loop
async def test_what_was_not_flushed_before_it_is_followed_is_flushed_first(tmp_path: Path) -> None:
    async with Setting(tmp_path, config=replace(CONFIG, flush_messages=1)) as here:
        follower = here.follower()
        append(follower.log)
        append(here.lead().log)
        asked: list[int] = []
        here.offload.before = lambda: asked.append(len(here.leader.requests))
        here.follow(follower)
        await until(lambda: len(here.leader.requests) == 1)
        assert (follower.log.recovery_point, asked) == (1, [0])


@on_a_loop
async def test_records_that_cannot_be_flushed_are_not_reported_to_the_leader(
    tmp_path: Path,
) -> None:
    async with Setting(tmp_path, config=replace(CONFIG, flush_messages=1)) as here:
        led = here.lead()
        follower = here.follow(here.follower())
        await until(lambda: len(here.leader.requests) == 1)

        def fail() -> None:
            raise DISK_FULL

        here.offload.before = fail
        led.append(1)
        here.leader.tell()
        await until(lambda: bool(here.failures.faults))
        await until(lambda: not here.fetchers._tasks)
        assert (follower.log.log_end_offset, len(here.leader.requests)) == (1, 1)


@on_a_loop
async def test_what_an_older_leader_acknowledged_is_followed_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    async with Setting(tmp_path) as here:
        led = here.lead()
        for _ in range(3):
            append(led.log, batch_with_repeated_offset())
        follower = here.follow(here.follower())
        await here.caught_up()
        assert follower.log.log_end_offset == 6
    (line,) = [each for each in caplog.messages if "consumers cannot read" in each]
    assert "offset=0 why=record 1: its offset delta does not follow" in line


@on_a_loop
async def test_a_session_names_only_what_has_changed(tmp_path: Path) -> None:
    async with Setting(tmp_path, QUICK._replace(wait_max_ms=20)) as here:
        orders, payments = here.lead(), here.lead(OTHER)
        here.follow(here.follower())
        here.follow(here.follower(OTHER))
        await until(lambda: len(here.leader.requests) >= 3)
        orders.append()
        here.leader.tell()
        await here.caught_up()
        # The request that waits while the record arrives names nothing either.
        await until(lambda: any(request.topics for request in here.leader.requests[1:]))
        await until(lambda: here.leader.requests[-1].topics == [])
        full, *rest = here.leader.requests
        assert (full.replica_id, full.session_id, full.session_epoch) == (2, 0, 0)
        assert [len(topic.partitions) for topic in full.topics] == [1, 1]
        assert {request.session_id for request in rest} == {rest[0].session_id}
        assert [request.session_epoch for request in rest] == list(range(1, len(rest) + 1))
        named = [topic for request in rest for topic in request.topics]
        assert [topic.topic_id for topic in named] == [orders.topic_id]
        assert payments.log.log_end_offset == 0
        here.fetchers.stop(OTHER)
        await until(lambda: here.leader.requests[-1].forgotten != [])
        assert here.leader.requests[-1].forgotten[0].partitions == (3,)


@on_a_loop
async def test_a_session_that_the_leader_evicted_is_started_again(tmp_path: Path) -> None:
    async with Setting(tmp_path, QUICK._replace(wait_max_ms=20)) as here:
        led = here.lead()
        here.follow(here.follower())
        await until(lambda: len(here.leader.requests) >= 3)
        here.leader.sessions._sessions.clear()
        led.append(4)
        here.leader.tell()
        await here.caught_up()
        await until(lambda: sum(r.session_epoch == 0 for r in here.leader.requests) == 2)


@on_a_loop
async def test_a_fenced_follower_waits_for_the_controller(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead(epoch=4)
        led.append()
        here.follow(here.follower(epoch=3))
        await until(lambda: ORDERS in here.fetchers.statistics.failed)
        asked = len(here.leader.requests)
        follower = here.follow(here.follower(epoch=4))
        assert not here.fetchers.statistics.failed
        await until(lambda: follower.log.log_end_offset == 1)
        assert len(here.leader.requests) > asked


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.kafka_storage_error,
    ],
)
@on_a_loop
async def test_a_partition_that_is_refused_waits_alone(tmp_path: Path, code: ErrorCode) -> None:
    async with Setting(tmp_path, QUICK._replace(backoff_ms=100)) as here:
        orders, payments = here.lead(), here.lead(OTHER)
        orders.append()
        payments.append()
        orders.errors += [code] * 1000
        follower = here.follow(here.follower())
        other = here.follow(here.follower(OTHER))
        await until(lambda: other.log.log_end_offset == 1)
        assert follower.log.log_end_offset == 0  # it is still refused
        orders.errors.clear()
        await here.caught_up()


@on_a_loop
async def test_a_broken_connection_is_opened_again(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead()
        follower = here.follow(here.follower())
        await until(lambda: len(here.leader.connections) == 1)
        for _ in range(3):
            here.leader.break_connections()
            led.append()
            await here.caught_up()
            await until(lambda: len(here.leader.connections) == 1)
        assert follower.log.log_end_offset == 3
        assert here.fetchers.statistics.connections_lost == 3


@on_a_loop
async def test_a_leader_that_moves_is_followed_to_its_new_address(tmp_path: Path) -> None:
    async with Setting(tmp_path, QUICK._replace(wait_max_ms=60_000)) as here:
        led = here.lead()
        follower = here.follow(here.follower())
        await until(lambda: len(here.leader.requests) == 1)
        await here.leader.stop()
        await here.leader.start()
        led.append()
        here.follow(follower)
        await until(lambda: follower.log.log_end_offset == 1)


@on_a_loop
async def test_a_partition_followed_later_does_not_wait_for_a_long_poll(tmp_path: Path) -> None:
    async with Setting(tmp_path, QUICK._replace(wait_max_ms=60_000)) as here:
        here.lead()
        here.follow(here.follower())
        await until(lambda: len(here.leader.requests) == 1)
        payments = here.lead(OTHER)
        payments.append()
        other = here.follow(here.follower(OTHER))
        await until(lambda: other.log.log_end_offset == 1)
        assert here.fetchers.statistics.connections_lost == 0


@on_a_loop
async def test_an_answer_for_what_was_stopped_meanwhile_is_dropped(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        fill_led(here.lead(), 5)
        fill_led(here.lead(OTHER), 5)
        here.leader.on_fetch = lambda: here.fetchers.stop(ORDERS)
        follower = here.follow(here.follower())
        other = here.follow(here.follower(OTHER))
        await until(lambda: other.log.log_end_offset == 5)
        assert [len(topic.partitions) for topic in here.leader.requests[0].topics] == [1, 1]
        assert follower.log.log_end_offset == 0


@on_a_loop
async def test_an_answer_to_the_epoch_before_is_dropped(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead()
        fill_led(led, 5)
        first, second = here.follower(), here.follower(epoch=1)
        appended: list[int] = []

        def change_leadership() -> None:
            here.leader.on_fetch = lambda: appended.append(first.log.log_end_offset)
            led.epoch = 1
            here.follow(second)

        here.leader.on_fetch = change_leadership
        here.follow(first)
        await until(lambda: second.high_watermark == 5)
        assert appended[0] == 0
        assert first.high_watermark == 0


@on_a_loop
async def test_a_partition_whose_disk_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Setting(tmp_path) as here:
        orders, payments = here.lead(), here.lead(OTHER)
        orders.append()
        payments.append()
        follower, other = here.follower(), here.follower(OTHER)

        class Full:
            size = 0

            def append(self, _: object) -> None:
                raise DISK_FULL

        monkeypatch.setattr(follower.log.segments[-1], "_file", Full())
        here.follow(follower)
        here.follow(other)
        await until(lambda: other.log.log_end_offset == 1)
        await until(lambda: here.failures.faults == [DISK_FULL])
        assert follower.log.failure is DISK_FULL


@on_a_loop
async def test_many_partitions_of_two_leaders_go_by_several_connections(tmp_path: Path) -> None:
    settings = QUICK._replace(fetchers=3, response_max_bytes=4000, max_bytes=2000)
    async with Setting(tmp_path, settings) as here:
        partitions = [TopicPartition(f"topic-{n % 4}", n) for n in range(40)]
        for partition in partitions:
            fill_led(here.lead(partition), 5)
        followers = [
            here.follower(each, leader=BrokerId(1 + each.partition % 2)) for each in partitions
        ]
        for follower in followers:
            here.follow(follower)
        await here.caught_up()
        assert len(here.leader.connections) == 6
        here.settings = settings._replace(fetchers=1)
        here.fetchers.resize()
        for partition in partitions:
            here.leader.led[partition].append()
        here.leader.tell()
        await here.caught_up()


@on_a_loop
async def test_throttled_partitions_are_left_out_while_the_rate_is_exceeded(tmp_path: Path) -> None:
    async with Setting(tmp_path, QUICK._replace(wait_max_ms=10)) as here:
        orders, payments = here.lead(), here.lead(OTHER)
        fill_led(orders, 30)
        fill_led(payments, 30)
        here.throttle.bytes_per_second = 1
        here.throttle.set_topic("orders", ("0:2", "1:7"))
        here.throttle.record(1000)
        follower = here.follow(here.follower())
        other = here.follow(here.follower(OTHER))
        await until(lambda: other.high_watermark == 30)
        assert follower.log.log_end_offset == 0
        here.throttle.bytes_per_second = 2**40
        await until(lambda: follower.high_watermark == 30)
        # In sync it is not throttled: it would fall out.
        here.throttle.bytes_per_second = 1
        orders.append()
        here.leader.tell()
        await until(lambda: follower.log.log_end_offset == 31)


@on_a_loop
async def test_large_answers_leave_turns_to_others(tmp_path: Path) -> None:
    config = replace(CONFIG, segment_bytes=100_000_000, max_message_bytes=10_000_000)
    settings = QUICK._replace(max_bytes=8_000_000)
    async with Setting(tmp_path, settings, config=config) as here:
        led = here.lead()
        for _ in range(32):
            led.append(1, bytes(200_000))
        ends: list[int] = []
        follower = here.follow(here.follower())
        while follower.log.log_end_offset < 32:
            ends.append(follower.log.log_end_offset)
            await asyncio.sleep(0)
        assert len(dict.fromkeys(ends)) > 5
        assert bytes_of(follower.log) == bytes_of(led.log)


@on_a_loop
async def test_a_loop_that_a_bug_ended_is_begun_again_with_all_its_partitions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Setting(tmp_path) as here:
        orders, payments = here.lead(), here.lead(OTHER)
        fill_led(orders, 5)

        def stumble(partition: TopicPartition) -> None:
            here.on_moved = here.moved.append
            raise ZeroDivisionError(str(partition))

        here.on_moved = stumble
        follower = here.follow(here.follower())
        here.follow(here.follower(OTHER))
        await until(lambda: follower.high_watermark == 5)
        fill_led(payments, 5)
        here.leader.tell()
        await here.caught_up()
        assert "fetch loop failed leader=1 fetcher=0" in caplog.messages
