"""Checks of final logs: compaction, deletion of old records, replicas."""

from dataclasses import replace

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.checkers.history import COMPACTED, FADING, RETAINED_BYTES, Trim, key_of
from barnabas.sim.checkers.violations import FinalPartition, FinalState, ViolationKind
from barnabas.wire.records.records import Record, build_batch
from tests.sim.histories import GROUP, TOPIC_ID, Ideal, found, with_replicas

ACCOUNT = TopicPartition(COMPACTED, 0)
EVENT = TopicPartition(FADING, 0)

# -- compaction --------------------------------------------------------------


def of_one_key(ideal: Ideal) -> list[int]:
    """Offsets of records with the key of the last one, in a compacted log of thirteen."""
    ideal.send(13, at=ACCOUNT)
    values = ideal.logs[ACCOUNT]
    return [offset for offset, value in enumerate(values) if key_of(value) == key_of(values[-1])]


def compacted(ideal: Ideal, *gone: int) -> FinalState:
    log = ideal.logs[ACCOUNT]
    records = tuple((offset, value) for offset, value in enumerate(log) if offset not in gone)
    return FinalState((FinalPartition(ACCOUNT, TOPIC_ID, len(log), records),))


def test_a_compacted_log_may_lack_superseded_records() -> None:
    ideal = Ideal()
    *superseded, _ = of_one_key(ideal)
    assert len(superseded) == 2
    assert found(ideal.history, compacted(ideal, *superseded)) == []


def test_a_compacted_log_must_have_the_last_record_of_each_key() -> None:
    ideal = Ideal()
    *_, last = of_one_key(ideal)
    assert found(ideal.history, compacted(ideal, last)) == [ViolationKind.LOST]


def test_records_of_a_compacted_log_keep_their_offsets() -> None:
    ideal = Ideal()
    of_one_key(ideal)
    ideal.poll(at=ACCOUNT)
    ideal.logs[ACCOUNT][3:5] = reversed(ideal.logs[ACCOUNT][3:5])
    assert ViolationKind.INCONSISTENT in found(ideal.history, compacted(ideal))


def test_readers_may_skip_compacted_records() -> None:
    ideal = Ideal()
    of_one_key(ideal)
    records = list(enumerate(ideal.logs[ACCOUNT]))
    ideal.polled(0, [records[0], *records[4:]], at=ACCOUNT, group=GROUP)
    ideal.commit(13, at=ACCOUNT)
    assert found(ideal.history, compacted(ideal)) == []


def test_replicas_of_a_compacted_log_may_differ() -> None:
    ideal = Ideal()
    ideal.send(2, at=ACCOUNT)
    final = with_replicas(compacted(ideal), broker_0=batch(0, b"a"), broker_1=b"")
    assert found(ideal.history, final) == []


# -- deletion of old records -------------------------------------------------


def faded(ideal: Ideal, log_start: int, kept: int = RETAINED_BYTES) -> FinalState:
    """Ten records without those before `log_start`, with `kept` bytes left."""
    ideal.send(10, at=EVENT)
    records = tuple(enumerate(ideal.logs[EVENT]))[log_start:]
    end = FinalPartition(EVENT, TOPIC_ID, 10, records, log_start, replicas={0: bytes(kept)})
    return FinalState((end,))


def test_the_oldest_records_may_be_deleted_by_size_or_on_request() -> None:
    by_size, by_wish = Ideal(), Ideal()
    assert found(by_size.history, faded(by_size, 4)) == []
    by_wish.done("admin", Trim(EVENT, 4))
    assert found(by_wish.history, faded(by_wish, 4, kept=10)) == []


def test_no_more_records_are_deleted_than_requested() -> None:
    ideal = Ideal()
    ideal.done("admin", Trim(EVENT, 3))
    assert found(ideal.history, faded(ideal, 4, kept=10)) == [ViolationKind.DELETED]


def test_records_after_the_log_start_must_be_present() -> None:
    ideal = Ideal()
    (end,) = faded(ideal, 4).partitions
    holed = FinalState((replace(end, records=(*end.records[:2], *end.records[3:])),))
    assert found(ideal.history, holed) == [ViolationKind.SKIPPED, ViolationKind.LOST]


# -- replicas ----------------------------------------------------------------


def batch(offset: int, value: bytes) -> bytes:
    return bytes(build_batch([Record(offset, 0, None, value)], base_offset=offset))


def test_equal_replicas_pass() -> None:
    ideal = Ideal()
    ideal.send(2)
    log = batch(0, b"a") + batch(1, b"b")
    assert found(ideal.history, with_replicas(ideal.final, broker_0=log, broker_2=log)) == []


@pytest.mark.parametrize("topic", ["orders", COMPACTED])
def test_a_missing_replica_is_reported(topic: str) -> None:
    end = FinalPartition(
        TopicPartition(topic, 0), TOPIC_ID, 0, (), assigned=(0, 1, 2), replicas={0: b"", 2: b""}
    )
    (violation,) = check(Ideal().history, FinalState((end,)))
    assert (violation.kind, violation.facts) == (ViolationKind.MISSING, f"{topic}-0 on broker 1")


@pytest.mark.parametrize("other", [b"", batch(0, b"a"), batch(0, b"a") + batch(1, b"c")])
def test_different_replicas_are_reported_with_the_offset(other: bytes) -> None:
    ideal = Ideal()
    ideal.send(2)
    log = batch(0, b"a") + batch(1, b"b")
    final = with_replicas(ideal.final, broker_0=log, broker_1=log, broker_2=other)
    (violation,) = check(ideal.history, final)
    assert violation.kind is ViolationKind.DIVERGED
    assert f"first at offset {1 if other else 0}" in str(violation)
