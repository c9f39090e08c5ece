"""All groups of a coordinator together: their bytes are bounded, and given back."""

from barnabas.base.errors import ErrorCode
from barnabas.base.randomness import Random
from barnabas.groups.classic.classic_messages import JoinReply, LeavingMember, OfferedProtocol
from barnabas.groups.classic.classic_turn import ClassicSettings
from barnabas.groups.consumer.consumer_groups import ConsumerGroups
from barnabas.groups.consumer.consumer_messages import ConsumerHeartbeatReply, ConsumerSettings
from barnabas.groups.group_bytes import COUNT_AGAIN_MS, GroupBytes
from barnabas.groups.offsets.offset_messages import OffsetSettings
from barnabas.groups.shard import GroupCoordinatorShard
from tests.groups.consumer_driver import first_request
from tests.groups.driver import Driver, join_request, joined

NO_ROOM = ErrorCode.coordinator_not_available


class Held:
    """A shard of which only the size matters."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.counted = 0

    def held_bytes(self) -> int:
        self.counted += 1
        return self.size


def driver(limit: int) -> Driver:
    """A shard of a coordinator whose groups may take so much in all."""
    found = Driver()
    consumers = ConsumerGroups(ConsumerSettings(), Random(1), dict)
    found.shard = GroupCoordinatorShard(
        ClassicSettings(), OffsetSettings(), Random(1), consumers, GroupBytes(limit)
    )
    found.shard.on_loaded(found.now)
    return found


def large(size: int) -> tuple[OfferedProtocol, ...]:
    return (OfferedProtocol("range", bytes(size)),)


def join(found: Driver, group_id: str) -> JoinReply | None:
    request = join_request("", group_id=group_id, protocols=large(8_000), must_know_its_id=False)
    reply = found.ask(found.shard.join(request, found.now)).reply
    assert reply is None or isinstance(reply, JoinReply)
    return reply


def test_members_of_many_groups_take_no_more_than_all_groups_may() -> None:
    found = driver(limit=30_000)
    assert [join(found, f"group-{n}") for n in range(3)] == [None] * 3
    refused = join(found, "group-3")
    assert refused is not None
    assert refused.error is NO_ROOM
    assert "group-3" not in found.shard.groups
    assert found.shard.held_bytes() < 30_000


def test_a_member_of_the_consumer_protocol_is_refused_in_the_same_way() -> None:
    found = driver(limit=30_000)
    request = first_request("a", subscribed_topic_names=("t" * 40_000,))
    reply = found.ask(found.shard.consumer_heartbeat(request, found.now)).reply
    assert isinstance(reply, ConsumerHeartbeatReply)
    assert reply.error is NO_ROOM
    assert not found.shard.groups


def test_a_member_that_joins_again_with_as_much_as_before_is_never_refused() -> None:
    found = driver(limit=10_000)
    member_id, _ = found.first_join(protocols=large(3_000))
    assert found.join(member_id, protocols=large(3_000)).reply is None
    joined(found.join(member_id, protocols=large(9_000)), NO_ROOM)


def test_room_that_members_leave_is_given_to_others() -> None:
    found = driver(limit=12_000)
    member_id, _ = found.first_join(protocols=large(4_000))
    found.leave(LeavingMember(member_id))
    found.loop_ms += COUNT_AGAIN_MS
    assert join(found, "another") is None


def test_groups_are_counted_only_at_the_limit_and_then_once_a_second() -> None:
    group_bytes = GroupBytes(100)
    shard = Held(0)
    group_bytes.add(shard)
    assert all(group_bytes.grow(10, now_ms=n) for n in range(10))
    assert shard.counted == 0
    shard.size = 95
    assert not any(group_bytes.grow(10, now_ms=20 + n) for n in range(50))
    assert shard.counted == 1
    shard.size = 50
    assert not group_bytes.grow(10, now_ms=500)
    assert group_bytes.grow(10, now_ms=20 + COUNT_AGAIN_MS)


def test_the_groups_of_a_log_count_once_it_is_loaded_and_no_more_once_it_is_dropped() -> None:
    group_bytes = GroupBytes(100)
    shard = Held(95)
    group_bytes.add(shard)
    group_bytes.on_loaded(shard)
    assert not group_bytes.grow(10, now_ms=0)
    del shard
    assert group_bytes.grow(10, now_ms=COUNT_AGAIN_MS)
