"""A coordinator's runtime: load, append, park until committed, timers, resignation, failures."""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode, LawBroken
from barnabas.base.offload import InlineOffload
from barnabas.config.topic_config import TopicConfig
from barnabas.coordinator.active_shard import LARGEST_BATCH, TIMER_AGAIN_MS
from barnabas.coordinator.coordinator_topic import APPEND_ERRORS, partition_of
from barnabas.coordinator.loader import AT_ONCE, load
from barnabas.coordinator.result import CoordinatorRecord, CoordinatorResult, Now
from barnabas.disk.disk import RealFile
from barnabas.log.log import Log
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from tests.coordinator.counters import (
    COMMIT_TIMEOUT_MS,
    DAY_MS,
    TOPIC,
    Broker,
    Count,
    Counters,
    error_of,
    in_virtual_time,
    record,
    turns,
)
from tests.log.batches import CONFIG, NOW, append, read_batches

NOT_COORDINATOR = ErrorCode.not_coordinator


def written(log: Log, *records: CoordinatorRecord, producer_id: int = -1) -> None:
    """Records in the log before the broker leads it; those of a producer are transactional."""
    numbered = [Record(n, NOW, key, value, ()) for n, (key, value) in enumerate(records)]
    batch = build_batch(
        numbered,
        producer_id=producer_id,
        producer_epoch=min(producer_id, 0),
        base_sequence=min(producer_id, 0),
        transactional=producer_id >= 0,
    )
    append(log, memoryview(batch))


def ended(log: Log, producer_id: int, control_type: ControlType) -> None:
    append(
        log, memoryview(build_marker(EndTransactionMarker(control_type, 0), NOW, producer_id, 0))
    )


# -- load ------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_shard_is_what_the_log_holds(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    for n in range(200):
        written(broker.log, record(f"key-{n % 7}", n), CoordinatorRecord(b"gone", b"1"))
    written(broker.log, CoordinatorRecord(b"gone", None))
    await broker.lead()
    assert broker.shard.counts == {f"key-{n % 7}": n for n in range(193, 200)}


@pytest.mark.parametrize("in_transactions", [False, True])
@in_virtual_time
async def test_others_get_their_turn_while_many_small_batches_are_loaded(
    tmp_path: Path, in_transactions: bool
) -> None:
    """Of one record each; or of one marker each, behind the records of all transactions."""
    broker = Broker(tmp_path, TopicConfig())
    for n in range(3 * AT_ONCE):
        written(broker.log, record(f"key-{n}", n), producer_id=n if in_transactions else -1)
    for n in range(3 * AT_ONCE if in_transactions else 0):
        ended(broker.log, n, ControlType.COMMIT)
    topic = replace(TOPIC, load_buffer_size=1 << 20)
    loading = asyncio.ensure_future(
        load(broker.log, broker.shard, topic, lambda: True, InlineOffload())
    )
    seen = [0]
    while not loading.done():
        await asyncio.sleep(0)
        seen.append(len(broker.shard))
    assert await loading == seen[-1] == 3 * AT_ONCE
    assert max(after - before for before, after in pairwise(seen)) <= AT_ONCE


@in_virtual_time
async def test_a_record_that_cannot_be_read_is_logged_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path)
    written(broker.log, record("a", 1), record("?", 2), record("b", 3))
    with caplog.at_level(logging.WARNING):
        await broker.lead()
    assert broker.shard.counts == {"a": 1, "b": 3}
    assert "record of counters passed over offset=1 why=the key is a question mark" in caplog.text


@in_virtual_time
async def test_records_of_a_transaction_count_when_it_commits(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    written(broker.log, record("committed", 1), producer_id=5)
    written(broker.log, record("aborted", 1), producer_id=6)
    written(broker.log, record("open", 1), producer_id=7)
    ended(broker.log, 5, ControlType.COMMIT)
    ended(broker.log, 6, ControlType.ABORT)
    await broker.lead()
    assert broker.shard.counts == {"committed": 1}


@in_virtual_time
async def test_a_shard_that_is_being_loaded_serves_nobody_yet(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    written(broker.log, record("a", 1))
    broker.begin_to_lead()
    with pytest.raises(BrokerError) as loading:
        broker.runtime.shards()
    assert loading.value.code is ErrorCode.coordinator_load_in_progress
    assert (broker.runtime.loading, broker.runtime.loaded()) == (1, [])
    with pytest.raises(BrokerError) as loading:
        await broker.runtime.ask(0, lambda shard, _: shard.get("a"))
    assert loading.value.code is ErrorCode.coordinator_load_in_progress
    await broker.loaded()
    assert (await broker.get("a")).value == 1


@in_virtual_time
async def test_a_decision_for_all_shards_waits_until_they_are_loaded(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    written(broker.log, record("a", 1), record("b", 1))
    broker.begin_to_lead()
    broker.runtime.run_all(lambda shard, _: shard.remove("a"))
    await broker.loaded()
    assert broker.shard.counts == {"b": 1}
    assert broker.log.log_end_offset == 3


@in_virtual_time
async def test_a_load_that_fails_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path)
    written(broker.log, record("a", 1))
    broker.begin_to_lead()
    broker.writer.led = None
    await turns()
    assert "counters not loaded partition=orders-0" in caplog.text
    broker.writer.led = broker.log
    await asyncio.sleep(1.1)
    assert (await broker.get("a")).value == 1


@in_virtual_time
async def test_a_disk_that_fails_while_a_shard_is_loaded_is_reported(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    written(broker.log, record("a", 1))
    fault = DiskFault(str(tmp_path), OSError(errno.EIO, "died"))
    with patch.object(RealFile, "read", side_effect=fault):
        broker.begin_to_lead()
        await turns()
    assert broker.failures.faults == [fault]
    assert await error_of(broker.get("a")) is ErrorCode.coordinator_load_in_progress
    broker.resign()
    await broker.runtime.stop()


@in_virtual_time
async def test_a_load_stops_when_the_broker_resigns(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    for n in range(50):
        written(broker.log, record("a", n))
    broker.runtime.on_leader(0, object())
    await asyncio.sleep(0)
    broker.resign()
    await broker.runtime.stop()
    assert broker.shard.counts.get("a", 0) < 49
    assert await error_of(broker.get("a")) is NOT_COORDINATOR


@in_virtual_time
async def test_a_bug_in_a_load_stops_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise LawBroken("TOY-1")

    monkeypatch.setattr(Counters, "replay", broken)
    broker = Broker(tmp_path)
    written(broker.log, record("a", 1))
    broker.runtime.on_leader(0, object())
    await turns(20)
    assert [str(each) for each in broker.failures.broken] == ["TOY-1"]


# -- decide, append, replay, park ------------------------------------------------------------------


@in_virtual_time
async def test_a_decision_is_in_force_when_it_is_in_the_log(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    assert [(await broker.add("a")).value for _ in range(3)] == [1, 2, 3]
    assert broker.shard.counts == {"a": 3}
    successor = Broker(tmp_path / "unused")
    successor.log = successor.writer.led = broker.log
    await successor.lead()
    assert successor.shard.counts == {"a": 3}


@in_virtual_time
async def test_a_reply_waits_until_its_records_are_committed(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    broker.writer.commits_at_once = False
    first, second = broker.add("a"), broker.add("a")
    await turns()
    assert broker.shard.counts == {"a": 2}
    assert not first.done()
    assert not second.done()
    broker.writer.commit()
    assert ((await first).value, (await second).value) == (1, 2)


@in_virtual_time
async def test_a_decision_that_changes_nothing_rests_on_those_before_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    before = broker.log.log_end_offset
    assert (await broker.get("a")).value == 0
    assert broker.log.log_end_offset == before
    broker.writer.commits_at_once = False
    broker.add("a")
    reading = broker.get("a")
    await turns()
    assert not reading.done(), "what it read may still be lost"
    broker.writer.commit()
    assert (await reading).value == 1


@in_virtual_time
async def test_a_request_that_waits_is_answered_by_a_later_decision(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    waiting = broker.wait("a")
    await turns()
    broker.writer.commits_at_once = False
    broker.add("a")
    await turns()
    assert not waiting.done(), "the decision is not committed"
    broker.writer.commit()
    assert (await waiting).value == 1


@in_virtual_time
async def test_records_that_are_not_committed_in_time_are_an_error_but_stay(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    broker.writer.commits_at_once = False
    started = asyncio.get_running_loop().time()
    assert await error_of(broker.add("a")) is ErrorCode.coordinator_not_available
    assert asyncio.get_running_loop().time() - started >= COMMIT_TIMEOUT_MS / 1000
    broker.writer.commit()
    assert (await broker.get("a")).value == 1


def add_many(number: int, is_atomic: bool) -> Callable[[Counters, Now], CoordinatorResult[Count]]:
    """Decide on this many counters, each of which takes a kilobyte."""
    many = tuple(CoordinatorRecord(b"k" * 1000 + b"%d" % n, b"1") for n in range(number))
    return lambda _, now: CoordinatorResult(Count(number), many, is_atomic=is_atomic)


@in_virtual_time
async def test_a_large_result_that_is_not_atomic_takes_several_batches(tmp_path: Path) -> None:
    broker = Broker(tmp_path, replace(CONFIG, segment_bytes=2**22, max_message_bytes=2**20))
    await broker.lead()
    assert (await broker.runtime.ask(0, add_many(1200, is_atomic=False))).value == 1200
    assert len(broker.shard) == 1200
    sizes = [header.size for header, _ in read_batches(broker.log)]
    assert len(sizes) == 3
    assert max(sizes) <= LARGEST_BATCH


@in_virtual_time
async def test_small_records_fit_a_topic_that_takes_small_batches_only(tmp_path: Path) -> None:
    """KAFKA-13099: else none of the ids that expire together would ever go."""
    broker = Broker(tmp_path, replace(CONFIG, segment_bytes=2**20, max_message_bytes=1000))
    await broker.lead()
    many = tuple(CoordinatorRecord(b"%d" % n, b"1") for n in range(300))
    assert not await broker.runtime.ask_loaded(
        lambda _, now: CoordinatorResult(None, many, is_atomic=False)
    )
    assert len(broker.shard) == 300
    assert max(header.size for header, _ in read_batches(broker.log)) <= 1000


@in_virtual_time
async def test_an_atomic_result_is_one_batch_however_large(tmp_path: Path) -> None:
    broker = Broker(tmp_path, replace(CONFIG, segment_bytes=2**22, max_message_bytes=2**20))
    await broker.lead()
    assert (await broker.runtime.ask(0, add_many(900, is_atomic=True))).value == 900
    assert [header.record_count for header, _ in read_batches(broker.log)] == [900]


@in_virtual_time
async def test_an_atomic_result_beyond_max_message_bytes_is_refused_as_a_whole(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path, replace(CONFIG, segment_bytes=2**22, max_message_bytes=2**20))
    await broker.lead()
    reply = await broker.runtime.ask(0, add_many(1200, is_atomic=True))
    assert reply.error is ErrorCode.unknown_server_error
    assert (broker.log.log_end_offset, len(broker.shard)) == (0, 0)


@in_virtual_time
async def test_a_reply_is_flushed_first_where_flush_messages_asks_for_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path, replace(CONFIG, flush_messages=1))
    await broker.lead()
    await broker.add("a")
    assert broker.log.recovery_point == broker.log.log_end_offset == 1


# -- failed appends --------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "seen"), APPEND_ERRORS.items(), ids=lambda each: each.name)
def test_a_failed_append_changes_nothing_and_returns_a_coordinators_error(
    error: ErrorCode, seen: ErrorCode, tmp_path: Path
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        broker = Broker(tmp_path)
        await broker.lead()
        waiting = broker.wait("a")
        await turns()
        broker.writer.error = BrokerError(error)
        assert (await broker.add("a")).error is seen
        assert (await waiting).error is seen
        assert not broker.shard.counts
        assert not len(broker.timer)
        broker.writer.error = None
        assert (await broker.add("a")).value == 1

    scenario()


@in_virtual_time
async def test_a_disk_that_fails_is_recorded_and_the_shard_is_left_alone_meanwhile(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    await broker.add("a")
    broker.writer.error = fault = DiskFault(str(tmp_path), OSError(errno.EIO, "died"))
    assert (await broker.add("a")).error is NOT_COORDINATOR
    assert broker.failures.faults == [fault]
    assert broker.shard.counts == {"a": 1}


# -- timers ----------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_timer_leads_to_a_decision(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    await broker.add("a")
    await asyncio.sleep(DAY_MS / 2000)
    await broker.add("a")
    await asyncio.sleep(DAY_MS / 1500)
    assert broker.shard.counts == {"a": 2}, "the second timer replaced the first"
    await asyncio.sleep(DAY_MS / 1500)
    assert not broker.shard.counts
    assert broker.log.log_end_offset == 3


@in_virtual_time
async def test_the_next_leader_arms_the_timers_again_and_the_former_one_has_none(
    tmp_path: Path,
) -> None:
    former = Broker(tmp_path)
    await former.lead()
    await former.add("a")
    former.resign()
    assert not len(former.timer)
    successor = Broker(tmp_path / "unused")
    successor.log = successor.writer.led = former.log
    await successor.lead()
    assert len(successor.timer) == 1
    await asyncio.sleep(DAY_MS / 1000 + 1)
    assert not successor.shard.counts
    assert former.log.log_end_offset == 2


@in_virtual_time
async def test_a_timer_that_is_due_already_expires_soon_and_not_at_once(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    await broker.add("a", 1)
    late = Now(0, -2.0 * DAY_MS)
    await broker.runtime.ask(0, lambda shard, _: shard.add("a", 1, late))
    assert broker.shard.counts == {"a": 2}
    await asyncio.sleep(0.002)
    assert not broker.shard.counts


@in_virtual_time
async def test_a_timer_whose_records_cannot_be_appended_expires_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    await broker.add("a")
    broker.writer.error = BrokerError(ErrorCode.not_enough_replicas)
    await asyncio.sleep(DAY_MS / 1000 + 3600)
    assert broker.shard.counts == {"a": 1}
    broker.writer.error = None
    await asyncio.sleep(TIMER_AGAIN_MS / 1000 + 1)
    assert not broker.shard.counts
    assert not len(broker.timer)


# -- resignation -----------------------------------------------------------------------------------


@in_virtual_time
async def test_pending_and_parked_requests_get_not_coordinator_when_the_broker_resigns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    broker.writer.commits_at_once = False
    waiting, parked = broker.wait("other"), broker.add("a")
    await turns()
    with caplog.at_level(logging.INFO):
        broker.resign()
    assert "counters dropped partition=orders-0 counters=1" in caplog.text
    assert [await error_of(waiting), await error_of(parked)] == [NOT_COORDINATOR] * 2
    assert await error_of(broker.get("a")) is NOT_COORDINATOR
    broker.writer.led = broker.log
    broker.writer.commit()  # too late for anybody


@in_virtual_time
async def test_a_new_epoch_of_the_same_tenure_keeps_the_shard(tmp_path: Path) -> None:
    broker, tenure = Broker(tmp_path), object()
    broker.runtime.on_leader(0, tenure)
    await turns()
    before = broker.shard
    broker.runtime.on_leader(0, tenure)
    assert broker.runtime.shards() == [before]
    broker.runtime.on_leader(0, object())
    await turns()
    assert broker.runtime.shards() == [broker.shard]
    assert broker.shard is not before


@in_virtual_time
async def test_a_runtime_that_stopped_loads_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    await broker.runtime.stop()
    broker.runtime.on_leader(0, object())
    assert broker.runtime.shards() == []


@in_virtual_time
async def test_a_request_to_all_shards_returns_those_that_failed(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    await broker.lead()
    await broker.add("a")
    broker.writer.commits_at_once = False
    [(partition, error)] = await broker.runtime.ask_loaded(lambda shard, _: shard.remove("a"))
    assert (partition, error.code) == (broker.log.partition, ErrorCode.coordinator_not_available)


@in_virtual_time
async def test_a_shard_that_was_dropped_meanwhile_is_not_asked_with_the_others(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path)
    written(broker.log, record("a", 1))
    await broker.lead()
    broker.runtime.on_leader(1, object())
    await broker.loaded()
    broker.writer.commits_at_once = False
    removing = asyncio.ensure_future(broker.runtime.ask_loaded(lambda shard, _: shard.remove("a")))
    await turns()
    broker.runtime.on_leader(1, None)  # the other broker may have counted on
    broker.runtime.on_leader(1, object())
    broker.writer.commit()
    assert await removing == []
    assert broker.log.log_end_offset == 2, "the dropped shard wrote what it believed before"


# -- the partition of a key ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("billing", 9),
        ("polygenelubricants", 0),  # its hash is the least integer
        ("größe", 7),
        ("\U0001f600", 49),  # two units of UTF-16
    ],
)
def test_a_key_has_the_partition_that_kafka_gives_it(key: str, partition: int) -> None:
    assert partition_of(key, 50) == partition
