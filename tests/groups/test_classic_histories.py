"""Any history of members that come, go, stall and come back, with a log that may fail.

Checked after every step: waiters are answered once and in time, generations only grow, what a
member hears is what its leader assigned to it in that generation, and the log tells the truth.
"""

from collections.abc import Callable

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_messages import (
    JoinReply,
    LeavingMember,
    OfferedProtocol,
    SyncReply,
)
from barnabas.groups.classic.classic_state import GroupState
from tests.groups.driver import GROUP, Driver, Pending, subscription

REBALANCE_MS = 20_000
PROTOCOLS = {
    name: OfferedProtocol(name, subscription(name, "orders"))
    for name in ("range", "roundrobin", "sticky")
}


class Client:
    """One consumer, as far as it remembers what it was told."""

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.fellows: tuple[str, ...] = ()
        self.request: Pending | None = None
        self.asked_at_ms = 0.0


class ClassicHistories(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.driver = Driver(initial_rebalance_delay_ms=3_000, max_size=4)
        self.clients = [Client(None), Client(None), Client(None), Client("i1"), Client("i2")]
        self.generation = 0

    def ask(self, client: Client, request: Callable[[], Pending]) -> None:
        client.request, client.asked_at_ms = request(), self.driver.loop_ms
        self.hear(client)

    def hear(self, client: Client) -> None:
        """Take note of an answer that has come."""
        reply = None if client.request is None else client.request.reply
        if isinstance(reply, JoinReply):
            client.request = None
            if reply.error in (ErrorCode.none, ErrorCode.member_id_required):
                client.member_id, client.generation = reply.member_id, reply.generation_id
                client.leads = reply.leader == reply.member_id and not reply.skip_assignment
                client.fellows = tuple(each.member_id for each in reply.members)
            elif reply.error is not ErrorCode.rebalance_in_progress:
                client.member_id, client.generation = "", -1
        elif isinstance(reply, SyncReply):
            client.request = None
            if reply.error is ErrorCode.none:
                assert is_share_of(reply.assignment, client), (reply, vars(client))

    clients_of = st.integers(0, 4)

    @rule(
        which=clients_of,
        offers=st.lists(st.sampled_from(sorted(PROTOCOLS)), min_size=1, unique=True),
        known=st.booleans(),
    )
    def join(self, which: int, offers: list[str], known: bool) -> None:
        client = self.clients[which]
        if not known:
            client.member_id = ""
        protocols = tuple(PROTOCOLS[name] for name in [*offers, *(["range"] * (which % 2))])
        unique = tuple(dict.fromkeys(protocols))
        self.ask(
            client,
            lambda: self.driver.join(
                client.member_id,
                group_instance_id=client.instance_id,
                protocols=unique,
                rebalance_timeout_ms=REBALANCE_MS,
            ),
        )

    @rule(which=clients_of)
    def sync(self, which: int) -> None:
        client = self.clients[which]
        shares = {each: f"{client.generation}/{each}".encode() for each in client.fellows}
        self.ask(
            client,
            lambda: self.driver.sync(
                client.member_id, client.generation, shares if client.leads else None
            ),
        )

    @rule(which=st.sets(clients_of, min_size=1))
    def some_join_and_ask_for_their_assignment(self, which: set[int]) -> None:
        for _ in range(2):
            for each in sorted(which):
                if self.clients[each].request is None:
                    self.join(each, ["range", "sticky"], True)
        self.driver.run_timers(6_000)
        self.answers_have_come()
        for each in sorted(which):
            if self.clients[each].request is None:
                self.sync(each)

    @rule(which=clients_of)
    def heartbeat(self, which: int) -> None:
        client = self.clients[which]
        self.driver.heartbeat(client.member_id, client.generation, client.instance_id)

    @rule(which=st.lists(clients_of, min_size=1, max_size=2, unique=True))
    def leave(self, which: list[int]) -> None:
        gone = [self.clients[each] for each in which]
        self.driver.leave(*[LeavingMember(each.member_id, each.instance_id) for each in gone])

    @rule(seconds=st.sampled_from([1, 3, 6, 11, 25]))
    def time_passes(self, seconds: int) -> None:
        self.driver.run_timers(seconds * 1_000)

    @rule()
    def the_log_fails(self) -> None:
        self.driver.fail_appends = ErrorCode.coordinator_not_available

    @rule()
    def the_log_works(self) -> None:
        self.driver.fail_appends = None

    @rule()
    def another_broker_leads(self) -> None:
        """Requests that wait get NOT_COORDINATOR from the runtime."""
        old = self.driver
        for client in self.clients:
            if client.request is not None:
                client.request, client.member_id, client.generation = None, "", -1
        self.driver = old.reloaded()
        self.driver.loop_ms = old.loop_ms
        self.driver.timers = {key: at + old.loop_ms for key, at in self.driver.timers.items()}
        group = self.driver.shard.groups.get(GROUP)
        self.generation = group.generation_id if isinstance(group, ClassicGroup) else 0

    @invariant()
    def answers_have_come(self) -> None:
        for client in getattr(self, "clients", ()):
            self.hear(client)

    @invariant()
    def nobody_waits_too_long(self) -> None:
        for client in getattr(self, "clients", ()):
            if client.request is not None:
                waited = self.driver.loop_ms - client.asked_at_ms
                assert waited <= REBALANCE_MS, (waited, self.driver.group)

    @invariant()
    def who_waits_is_who_is_waited_for(self) -> None:
        if not hasattr(self, "driver"):
            return
        group = self.driver.shard.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            waiting = [*group.joining.values(), *group.syncing.values()]
            assert sorted(waiting) == sorted(self.driver.waiting)
            assert not group.joining or group.state is GroupState.PREPARING_REBALANCE
            assert not group.syncing or group.state is GroupState.COMPLETING_REBALANCE
            assert set(group.joining) | set(group.syncing) <= set(group.members)

    @invariant()
    def members_are_consistent(self) -> None:
        group = self.driver.shard.groups.get(GROUP) if hasattr(self, "driver") else None
        if isinstance(group, ClassicGroup):
            assert group.generation_id >= self.generation
            self.generation = group.generation_id
            assert (group.leader_id in group.members) == bool(group.members)
            assert set(group.static_members.values()) <= set(group.members)
            assert len(group.members) <= 4 or group.state is GroupState.PREPARING_REBALANCE
            assert not (group.is_empty and group.members)
            timed = {key[2] for key in self.driver.timers if key[0] == "session"}
            waits = set(group.joining) | set(group.syncing)
            assert set(group.members) <= timed | waits, "a member that nothing would ever drop"

    @invariant()
    def the_log_tells_the_truth(self) -> None:
        group = self.driver.shard.groups.get(GROUP) if hasattr(self, "driver") else None
        if isinstance(group, ClassicGroup):
            event(group.state.value)
        if isinstance(group, ClassicGroup) and group.state is GroupState.STABLE:
            assert remembered(self.driver.reloaded().group) == remembered(group)


def is_share_of(assignment: bytes, client: Client) -> bool:
    """True if the leader of that generation gave it to the client, or to its former member id."""
    if assignment == b"":
        return True  # it joined after its leader had heard who is there, or was forgotten
    generation, _, member_id = assignment.decode().partition("/")
    owner_is_right = member_id == client.member_id
    if client.instance_id is not None:
        owner_is_right = member_id.startswith(f"{client.instance_id}-")
    return owner_is_right and int(generation) == client.generation


def remembered(group: ClassicGroup) -> tuple[object, ...]:
    """The state of a group that outlives its broker."""
    return (
        group.state,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.state_timestamp_ms,
        group.topics,
        group.static_members,
        [
            (m.member_id, m.metadata(group.protocol_name), m.assignment, m.session_timeout_ms)
            for m in group.members.values()
        ],
    )


TestClassicHistories = ClassicHistories.TestCase
TestClassicHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
