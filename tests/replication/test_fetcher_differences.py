"""Fetchers where logs differ: what the leader lacks is cut off, what cannot follow is refused."""

import logging
from pathlib import Path

import pytest

from barnabas.base.ids import Offset
from barnabas.wire.apis import ApiKey
from tests.log.batches import append
from tests.replication.following import ORDERS, QUICK, Setting, bytes_of, fill_led, on_a_loop, until


@on_a_loop
async def test_what_diverged_is_truncated_by_epoch_and_fetched_again(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead(epoch=1)
        fill_led(led, 10)
        follower = here.follow(here.follower(epoch=1))
        await here.caught_up()
        here.fetchers.stop(ORDERS)
        # It led for a while, alone; meanwhile the other one was elected and wrote otherwise.
        for _ in range(4):
            append(follower.log, epoch=2)
        led.lead(3)
        led.append(3, b"another value")
        again = here.follow(here.follower(epoch=3, high_watermark=follower.high_watermark))
        await here.caught_up()
        assert again.log.epochs.entries == led.log.epochs.entries == ((1, 0), (3, 10))
        assert not again.log.is_unsettled
        assert here.fetchers.statistics.truncations == 1
        assert again.high_watermark >= 10


@on_a_loop
async def test_a_follower_behind_the_leaders_log_start_starts_over_there(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead()
        fill_led(led, 150)
        follower = here.follower()
        append(follower.log, epoch=0)
        led.log.delete_records_before(Offset(100))
        here.follow(follower)
        await until(lambda: follower.log.log_end_offset == 150)
        assert follower.log.log_start_offset == 100
        assert here.leader.seen[ApiKey.LIST_OFFSETS] == 2
        await until(lambda: follower.high_watermark == 150)


@on_a_loop
async def test_a_log_start_within_a_batch_is_reached_by_way_of_the_batch(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead()
        led.append(10)
        led.append(10)
        led.log.delete_records_before(Offset(5))
        follower = here.follow(here.follower())
        await until(lambda: follower.log.log_end_offset == 20)
        assert follower.log.log_start_offset == 5
        assert bytes_of(follower.log) == bytes_of(led.log)


@on_a_loop
async def test_the_log_start_goes_with_the_leaders(tmp_path: Path) -> None:
    async with Setting(tmp_path, QUICK._replace(wait_max_ms=10)) as here:
        led = here.lead()
        fill_led(led, 20)
        follower = here.follow(here.follower())
        await until(lambda: follower.high_watermark == 20)
        led.log.delete_records_before(Offset(7))
        here.leader.tell()
        await until(lambda: follower.log.log_start_offset == 7)


@on_a_loop
async def test_what_claims_to_be_of_an_epoch_after_the_leaders_is_fetched_again(
    tmp_path: Path,
) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead(epoch=1)
        fill_led(led, 10)
        follower = here.follow(here.follower(epoch=1))
        await here.caught_up()
        here.fetchers.stop(ORDERS)
        append(follower.log, epoch=1 << 21)  # the epoch of a batch is not under its CRC
        fill_led(led, 5)
        again = here.follow(here.follower(epoch=1, high_watermark=follower.high_watermark))
        await here.caught_up()
        assert again.log.epochs.entries == led.log.epochs.entries == ((1, 0),)


@on_a_loop
async def test_a_leader_that_ends_before_us_and_knows_no_epochs_makes_us_shorter(
    tmp_path: Path,
) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead(epoch=0)
        fill_led(led, 3)
        led.log.epochs.truncate_from_end(0)  # as if it could not compare
        follower = here.follower()
        for _ in range(8):
            append(follower.log, epoch=0)
        here.follow(follower)
        await until(lambda: follower.log.log_end_offset == 3)


@on_a_loop
async def test_damaged_batches_are_refused_and_fetched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead()
        fill_led(led, 5)

        def damage(records: bytearray) -> None:
            records[-1] ^= 1

        led.damages += [damage, damage]
        with caplog.at_level(logging.ERROR):
            follower = here.follow(here.follower())
            await here.caught_up()
        assert follower.log.log_end_offset == 5
        assert sum("not fetched" in message for message in caplog.messages) == 1


@on_a_loop
async def test_batches_of_an_epoch_that_has_not_begun_are_refused(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead(epoch=2)
        fill_led(led, 5)

        def claim_epoch(records: bytearray) -> None:
            records[15] = 3  # outside the CRC, as the leader writes it last

        led.damages.append(claim_epoch)
        follower = here.follow(here.follower(epoch=2))
        await here.caught_up()
        assert follower.log.epochs.entries == ((2, 0),)


@on_a_loop
async def test_batches_of_unexpected_offsets_are_refused(tmp_path: Path) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead()
        fill_led(led, 5)

        def shift(records: bytearray) -> None:
            records[:] = records[len(records) // 5 :] + records[: len(records) // 5]

        led.damages.append(shift)
        follower = here.follow(here.follower())
        await until(lambda: bytes_of(follower.log) == bytes_of(led.log))


@on_a_loop
async def test_a_log_that_leads_while_its_truncation_is_settled_settles_it_itself(
    tmp_path: Path,
) -> None:
    async with Setting(tmp_path) as here:
        led = here.lead(epoch=1)
        fill_led(led, 5)
        follower = here.follower()
        for _ in range(8):
            append(follower.log, epoch=0)

        def lead_first() -> None:
            here.fetchers.stop(ORDERS)
            append(follower.log, epoch=2)
            assert not follower.log.is_unsettled

        here.offload.before = lead_first
        here.follow(here.follower(epoch=1))
        await until(lambda: follower.log.epochs.latest == 2)
        assert (follower.log.log_end_offset, follower.log.recovery_point) == (1, 0)
