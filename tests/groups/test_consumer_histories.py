"""Whatever members do, in whatever order, and wherever the shard moves: what must hold, holds.

Clients of both protocols join, obey or do not, stop being heard of, hear no answers, come back,
leave; topics come, grow and go; writes fail; another broker takes over. After each step no two
clients own the same partition and what was replayed equals what is known; and when all behave at
last, everything is assigned, evenly.
"""

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from barnabas.groups.consumer.consumer_messages import MigrationPolicy, Topic
from tests.groups.consumer_driver import (
    BILLS,
    ORDERS,
    ClassicConsumer,
    Consumer,
    ConsumerDriver,
    owned_twice,
)
from tests.groups.driver import GROUP

SESSION_MS = 45_000
Client = Consumer | ClassicConsumer

consumers = st.integers(0, 3)
classics = st.integers(0, 1)
subscriptions = st.sampled_from([("orders",), ("bills",), ("bills", "orders")])


class Histories(RuleBasedStateMachine):
    """`seen` is the greatest epoch there was; it begins again only with the group."""

    clients: list[Consumer]
    classic: list[ClassicConsumer]

    @initialize(policy=st.sampled_from([*MigrationPolicy]), is_cooperative=st.booleans())
    def begin(self, policy: MigrationPolicy, is_cooperative: bool) -> None:
        topics = {"orders": Topic(ORDERS, 4), "bills": Topic(BILLS, 3)}
        self.driver = ConsumerDriver(topics, migration_policy=policy)
        static = [Consumer(self.driver, f"s{each}-0", instance_id=f"s{each}") for each in range(2)]
        self.clients = [Consumer(self.driver, f"c{each}") for each in range(2)] + static
        self.classic = [ClassicConsumer(self.driver, is_cooperative=is_cooperative)]
        self.classic.append(ClassicConsumer(self.driver, is_cooperative=is_cooperative))
        self.seen = 0

    # -- clients of the consumer protocol -------------------------------------------------------

    @rule(which=consumers)
    def beat(self, which: int) -> None:
        self.clients[which].beat()

    @rule(which=consumers)
    def beat_and_obey(self, which: int) -> None:
        self.clients[which].beat()
        self.clients[which].obey()

    @rule(which=consumers)
    def beat_without_saying_what_it_owns(self, which: int) -> None:
        if self.clients[which].epoch > 0:
            self.clients[which].beat(owned=None)

    @rule(which=consumers)
    def lose_the_answer(self, which: int) -> None:
        self.clients[which].is_deaf = True
        self.clients[which].beat()
        self.clients[which].is_deaf = False

    @rule(which=consumers, topics=subscriptions)
    def subscribe(self, which: int, topics: tuple[str, ...]) -> None:
        self.clients[which].subscribe(*topics)

    @rule(which=consumers, epoch=st.integers(0, 9))
    def claim_another_epoch(self, which: int, epoch: int) -> None:
        client = self.clients[which]
        if client.epoch > 0 and epoch != client.epoch:
            client.epoch = epoch
            client.beat()

    @rule(which=consumers)
    def leave(self, which: int) -> None:
        self.clients[which].leave()

    @rule(which=st.integers(2, 3))
    def leave_for_a_while_and_be_another_member_then(self, which: int) -> None:
        client = self.clients[which]
        client.leave(-2)
        name, count = client.member_id.split("-")
        client.member_id = f"{name}-{int(count) + 1}"

    # -- clients of the classic protocol --------------------------------------------------------

    @rule(which=classics)
    def classic_join(self, which: int) -> None:
        self.classic[which].join()

    @rule(which=classics)
    def classic_go_on(self, which: int) -> None:
        self.classic[which].go_on()

    @rule(which=classics)
    def classic_beat(self, which: int) -> None:
        if self.classic[which].member_id:
            self.classic[which].beat()

    @rule(which=classics)
    def classic_leave(self, which: int) -> None:
        if self.classic[which].member_id:
            self.classic[which].leave()

    # -- the world ------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([1, 3_000, 20_000]))
    def wait(self, milliseconds: int) -> None:
        """Clients know when their session ended, or they had too long to give up, and stop."""
        self.driver.run_timers(milliseconds)
        self._stop_who_was_removed()

    @rule(partitions=st.integers(0, 6))
    def change_bills(self, partitions: int) -> None:
        before = self.driver.topics.get("bills", Topic(BILLS, 0)).partitions
        if partitions == 0:
            self.driver.change_topic("bills", None)
        else:
            self.driver.change_topic("bills", Topic(BILLS, max(before, partitions)))

    @rule()
    def move(self) -> None:
        """Another broker takes over; whoever waited for the old one has no answer."""
        self.driver = self.driver.moved()
        for client in self._all():
            client.driver = self.driver
        for classic in self.classic:
            classic.joining = classic.syncing = None
        self._stop_who_was_removed()

    @rule(which=consumers)
    def fail_to_write(self, which: int) -> None:
        self.driver.fail_appends = ErrorCode.coordinator_not_available
        self.clients[which].beat()
        self.driver.fail_appends = None

    def _stop_who_was_removed(self) -> None:
        group = self.driver.shard.groups.get(GROUP)
        members = group.members if isinstance(group, ConsumerGroup | ClassicGroup) else {}
        for client in self._all():
            if client.member_id not in members:
                client.owned = {}

    def _all(self) -> Iterator[Client]:
        yield from self.clients
        yield from self.classic

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.driver.shard.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    # -- what must hold -------------------------------------------------------------------------

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        if self.group is not None and hasattr(self, "clients"):
            assert not owned_twice(*self._all())

    @invariant()
    def owners_are_those_who_have(self) -> None:
        group = self.group if hasattr(self, "driver") else None
        if group is not None:
            owned = [
                (topic, partition)
                for member in group.members.values()
                for has in (member.assigned, member.revoking)
                for topic, partitions in has.items()
                for partition in partitions
            ]
            assert len(owned) == len(set(owned))
            assert len(owned) == sum(map(len, group.owners.values()))

    @invariant()
    def epochs_do_not_go_back(self) -> None:
        group = self.group if hasattr(self, "driver") else None
        if group is not None:
            assert group.assignment_epoch <= group.group_epoch
            assert all(each.epoch <= group.group_epoch for each in group.members.values())

    @invariant()
    def the_log_tells_all(self) -> None:
        group = self.group if hasattr(self, "driver") else None
        if group is not None:
            loaded = self.driver.moved().consumers
            for name in ("group_epoch", "assignment_epoch", "members", "targets", "owners"):
                assert getattr(loaded, name) == getattr(group, name)
            assert loaded.topics == group.topics
            assert loaded.static_members == group.static_members

    @precondition(lambda self: any(client.epoch > 0 for client in self.clients))
    @rule()
    def all_behave(self) -> None:
        """Consumers of the newer kind go on; the others are gone for good."""
        for classic in self.classic:
            classic.owned, classic.member_id, classic.generation = {}, "", -1
            classic.joining = classic.syncing = None
        active = [client for client in self.clients if client.epoch > 0]
        for client in self.clients:
            if client not in active:
                client.owned = {}
        for _ in range(14):
            self.driver.run_timers(SESSION_MS / 10)
            self._stop_who_was_removed()
            for client in active:
                client.beat()
                client.obey()
                assert not owned_twice(*active)
        self._assert_settled(active)

    def _assert_settled(self, active: list[Consumer]) -> None:
        group = self.group
        if group is None:
            return  # it could not be made a consumer group
        assert group.state is ConsumerGroupState.STABLE
        assert sorted(group.members) == sorted(client.member_id for client in active)
        wanted = dict.fromkeys(topic for client in active for topic in client.topics)
        there = [self.driver.topics[topic] for topic in wanted if topic in self.driver.topics]
        loads = [sum(map(len, client.owned.values())) for client in active]
        assert sum(loads) == sum(topic.partitions for topic in there)
        if len({client.topics for client in active}) == 1:
            assert max(loads) - min(loads) <= 1


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
