"""Groups as the log tells of them, also where older brokers wrote it."""

import struct

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.classic.classic_state import GroupState
from tests.groups.driver import GROUP, Driver, joined, subscription, synced


def text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    return struct.pack(">h", len(value)) + value.encode()


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def record(version: int) -> CoordinatorRecord:
    """A group with one member, as brokers wrote it up to version 3."""
    member = text("m1") + (text("i1") if version >= 3 else b"") + text("client") + text("/10.0.0.1")
    member += struct.pack(">i", 45_000) if version >= 1 else b""
    member += struct.pack(">i", 10_000) + data(subscription("orders")) + data(b"mine")
    value = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 5)
    value += text("range") + text("m1")
    value += struct.pack(">q", 1_600_000_000_000) if version >= 2 else b""
    return CoordinatorRecord(b"\0\2" + text(GROUP), value + struct.pack(">i", 1) + member)


@pytest.mark.parametrize("version", range(4))
def test_a_group_is_loaded_from_what_any_broker_wrote(version: int) -> None:
    driver = Driver([record(version)])
    group = driver.group
    assert (group.state, group.generation_id, group.leader_id) == (GroupState.STABLE, 5, "m1")
    assert group.state_timestamp_ms == (1_600_000_000_000 if version >= 2 else None)
    assert group.rebalance_timeout_ms == (45_000 if version >= 1 else 10_000)
    assert group.static_members == ({"i1": "m1"} if version >= 3 else {})
    assert group.is_subscribed_to("orders")
    assert not group.is_subscribed_to("bills")
    assert driver.heartbeat("m1", 5) is ErrorCode.none
    assert synced(driver.sync("m1", 5)).assignment == b"mine"


def test_of_several_records_of_a_group_the_last_counts() -> None:
    driver = Driver()
    ids = driver.stable(2)
    driver.run_timers(10_000)
    assert driver.reloaded().group.is_empty
    _, pending = driver.first_join()
    driver.run_timers(3_000)
    driver.sync(joined(pending).member_id, joined(pending).generation_id)
    again = driver.reloaded().group
    assert list(again.members) == [joined(pending).member_id]
    assert ids[0] not in again.members


def test_offsets_age_since_their_commit_or_since_the_group_became_empty() -> None:
    old = Driver([record(1)]).group
    assert old.unused_since_ms(77) == 77
    empty = struct.pack(">h", 2) + text("consumer") + struct.pack(">i", 5) + text(None) + text(None)
    value = empty + struct.pack(">q", 1_500) + struct.pack(">i", 0)
    driver = Driver([CoordinatorRecord(b"\0\2" + text(GROUP), value)])
    assert driver.group.unused_since_ms(77) == 1_500


def test_after_loading_the_leader_that_joins_begins_the_next_generation() -> None:
    driver = Driver([record(2)])
    assert driver.join("m1").reply is not None
    assert driver.group.generation_id == 6
