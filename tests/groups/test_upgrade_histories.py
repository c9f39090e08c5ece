"""Groups that change protocol in the middle of anything: no partition is ever owned by two clients.

Clients of both protocols behave, come and go and die; the shard moves; writes fail. When only those
of one protocol are left, and go on for a while, they share everything among them.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_messages import Topic
from tests.groups.consumer_driver import (
    ORDERS,
    ClassicConsumer,
    Consumer,
    ConsumerDriver,
    owned_twice,
)
from tests.groups.driver import GROUP

Client = Consumer | ClassicConsumer
consumers = st.integers(0, 1)
classics = st.integers(0, 2)


class Histories(RuleBasedStateMachine):
    clients: list[Consumer]
    classic: list[ClassicConsumer]

    @initialize(is_cooperative=st.booleans())
    def begin(self, is_cooperative: bool) -> None:
        self.driver = ConsumerDriver({"orders": Topic(ORDERS, 7)})
        self.clients = [Consumer(self.driver, f"c{each}") for each in range(2)]
        self.classic = [
            ClassicConsumer(self.driver, is_cooperative=is_cooperative) for _ in range(3)
        ]

    @property
    def all(self) -> list[Client]:
        return [*self.clients, *self.classic]

    @rule(which=consumers)
    def consumer_works(self, which: int) -> None:
        self.clients[which].work()

    @rule(which=classics)
    def classic_works(self, which: int) -> None:
        self.classic[which].work()

    @rule(rounds=st.integers(1, 4))
    def all_classic_work(self, rounds: int) -> None:
        for _ in range(rounds):
            self.wait(10)
            for client in self.classic:
                client.work()

    @rule(which=consumers)
    def consumer_leaves(self, which: int) -> None:
        self.clients[which].leave()

    @rule(which=classics)
    def classic_leaves(self, which: int) -> None:
        if self.classic[which].member_id:
            self.classic[which].leave()

    @rule(which=classics)
    def classic_is_another_process(self, which: int) -> None:
        """It was killed, and begins again; what it was is still a member for a while."""
        self.classic[which].forget()

    @rule(milliseconds=st.sampled_from([10, 4_000]))
    def wait(self, milliseconds: int) -> None:
        self.driver.run_timers(milliseconds)
        self._stop_who_was_removed()

    @rule()
    def move(self) -> None:
        self.driver = self.driver.moved()
        for client in self.all:
            client.driver = self.driver
        for classic in self.classic:
            classic.joining = classic.syncing = None
        self._stop_who_was_removed()

    @rule(which=st.integers(0, 4))
    def fail_to_write(self, which: int) -> None:
        self.driver.fail_appends = ErrorCode.coordinator_not_available
        self.all[which].work()
        self.driver.fail_appends = None

    @rule(stay_classic=st.booleans())
    def only_one_kind_stays(self, stay_classic: bool) -> None:
        """The others leave; some time later those that stay have everything."""
        staying: list[Client] = [*self.classic] if stay_classic else [*self.clients]
        for consumer in self.clients if stay_classic else ():
            consumer.leave()
        for classic in self.classic if not stay_classic else ():
            if classic.member_id:
                classic.leave()
        for _ in range(80):
            self.wait(1_000)
            for client in staying:
                client.work()
                self.no_partition_is_owned_twice()
        assert sum(len(client.owned.get(ORDERS, ())) for client in staying) == 7
        kind = type(self.driver.shard.groups[GROUP])
        assert kind is (ClassicGroup if stay_classic else ConsumerGroup)

    def _stop_who_was_removed(self) -> None:
        """A client knows when its session ended, or when it took too long to join."""
        group = self.driver.shard.groups.get(GROUP)
        members = group.members if isinstance(group, ConsumerGroup | ClassicGroup) else {}
        for client in self.all:
            if client.member_id not in members:
                client.owned = {}

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        if hasattr(self, "clients"):
            assert not owned_twice(*self.all)

    @invariant()
    def another_broker_would_know_the_same(self) -> None:
        group = self.driver.shard.groups.get(GROUP) if hasattr(self, "driver") else None
        if isinstance(group, ConsumerGroup):
            loaded = self.driver.moved().consumers
            assert loaded.members == group.members
            assert loaded.targets == group.targets


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
