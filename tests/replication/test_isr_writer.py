"""Changes of the in-sync replicas on their way to the tree, whatever becomes of them there."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from barnabas.base.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from barnabas.replication.leader.follower_progress import IsrChange
from barnabas.replication.leader.isr_writer import (
    ANNOUNCE_EVERY_S,
    WRITTEN_AT_ONCE,
    IsrTracker,
)
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.tree import ANY_VERSION, ConnectionLoss, Stat
from tests.log.batches import NOW, batch_of, open_partition
from tests.purgatory.virtual_loop import VirtualLoop
from tests.replication.leading import F2, F3, ME, leadership
from tests.support.recorded_failures import RecordedFailures

LAG = 1000
ALL = (ME, F2, F3)
PARTITION = TopicPartition("orders", 0)
PATH = paths.partition_state_path(PARTITION)


class Faulty(EmbeddedSession):
    """Loses the connection before or after the next writes, as told."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.losses: list[str] = []
        self.before_write: Callable[[], Awaitable[object]] | None = None

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "before":
            raise ConnectionLoss(path)
        if self.before_write is not None:
            await self.before_write()
            self.before_write = None
        stat = await super().set(path, data, version)
        if loss == "after":
            raise ConnectionLoss(path)
        return stat


class Setting:
    """One partition that this broker leads, its state in a tree, and the tracker."""

    def __init__(self, folder: Path, isr: tuple[BrokerId, ...]) -> None:
        self.tree = Tree()
        self.session = Faulty(self.tree)
        self.replicas = Replicas()
        self.leader = LeaderReplica(
            ME,
            leadership(PARTITION, isr=isr, replicas=ALL),
            open_partition(folder),
            high_watermark=Offset(0),
            now_ms=0,
            max_lag_ms=LAG,
        )
        self.replicas.put(self.leader)
        self.changed: list[TopicPartition] = []
        self.failures = RecordedFailures()
        self.tracker = IsrTracker(
            self.session,
            self.replicas,
            self.replicas.find,
            lambda: LAG,
            self.changed.append,
            self.failures,
        )

    async def write(self, epoch: int, isr: tuple[BrokerId, ...], leader: BrokerId = ME) -> None:
        """As the controller does."""
        state = layout.LeaderAndIsr(leader, LeaderEpoch(epoch), 7, isr)
        data = layout.encode_partition_state(state)
        session = self.tree.session()
        if await session.exists(PATH) is None:
            await session.create(PATH, data, make_parents=True)
        else:
            await session.set(PATH, data)

    async def state(self) -> tuple[tuple[BrokerId, ...], int]:
        data, stat = await self.tree.session().get(PATH)
        return layout.decode_partition_state(PARTITION, data).isr, stat.version

    async def announced(self) -> list[list[TopicPartition]]:
        session = self.tree.session()
        told = []
        for name in await session.children(paths.ISR_CHANGE_NOTIFICATION):
            path = f"{paths.ISR_CHANGE_NOTIFICATION}/{name}"
            told.append(layout.decode_partitions(path, (await session.get(path))[0]))
        return told

    def expand(self, follower: BrokerId = F3) -> IsrChange:
        change = self.leader.on_follower_fetch(follower, 0, 0, 0).isr_change
        assert change is not None
        self.tracker.submit(self.leader, change)
        return change


Scenario = Callable[[Setting], Awaitable[None]]
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a scenario in virtual time."""
    loop = VirtualLoop()

    def run(scenario: Scenario, isr: tuple[BrokerId, ...] = ALL) -> None:
        async def whole() -> None:
            setting = Setting(tmp_path, isr)
            await setting.write(0, isr)
            await setting.session.create(paths.ISR_CHANGE_NOTIFICATION)
            setting.tracker.start()
            await scenario(setting)
            await setting.tracker.stop()
            assert not setting.failures.broken
            assert len(asyncio.all_tasks()) == 1

        loop.run_until_complete(whole())

    yield run
    loop.close()


async def settle() -> None:
    await asyncio.sleep(0.01)


# -- as usual ----------------------------------------------------------------


def test_lagging_followers_leave_the_isr_within_half_the_lag_time(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(setting: Setting) -> None:
        setting.leader.append(batch_of(3), NOW)
        setting.leader.on_follower_fetch(F3, 3, 0, 600)
        with caplog.at_level(logging.INFO):
            await asyncio.sleep(LAG / 1000 + LAG / 2000 + 0.1)
        assert await setting.state() == ((ME, F3), 1)
        assert (setting.leader.isr, setting.leader.high_watermark) == ((ME, F3), 3)
        assert PARTITION in setting.changed
        tracker = setting.tracker
        assert (tracker.shrinks, tracker.expands, tracker.failed_updates) == (1, 0, 0)
        (line,) = (record.getMessage() for record in caplog.records)
        assert line.startswith("isr shrunk partition=orders-0 from=1,2,3 to=1,3 partition_epoch=1")

    run(scenario)


def test_a_follower_that_caught_up_joins_the_isr_and_the_controller_is_notified(run: Run) -> None:
    async def scenario(setting: Setting) -> None:
        setting.expand()
        await settle()
        assert await setting.state() == (ALL, 1)
        assert (setting.leader.isr, setting.leader.partition_epoch) == (ALL, 1)
        assert setting.tracker.expands == 1
        await asyncio.sleep(0.2)
        assert await setting.announced() == [[PARTITION]]

    run(scenario, (ME, F2))


def test_one_notification_covers_changes_shortly_after_each_other(run: Run) -> None:
    async def scenario(setting: Setting) -> None:
        setting.expand(F2)
        await asyncio.sleep(ANNOUNCE_EVERY_S / 2)
        setting.expand(F3)
        await settle()
        setting.leader.append(batch_of(1), NOW)
        setting.tracker.shrink(10 * LAG)
        await settle()
        assert await setting.state() == ((ME,), 3)
        assert await setting.announced() == [[PARTITION]]
        await asyncio.sleep(2 * ANNOUNCE_EVERY_S)
        assert await setting.announced() == [[PARTITION], [PARTITION]]

    run(scenario, (ME,))


class Counting(EmbeddedSession):
    """Counts the writes of each turn of the loop, and those that have no response yet."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.turn = self.most_in_a_turn = self.begun = 0
        self.goes_on = asyncio.Event()

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        self.begun += 1
        if self.turn == 0:
            asyncio.get_running_loop().call_soon(self._turn_over)
        self.turn += 1
        self.most_in_a_turn = max(self.most_in_a_turn, self.turn)
        await self.goes_on.wait()
        return await super().set(path, data, version)

    def _turn_over(self) -> None:
        self.turn = 0


def test_thousands_of_changes_at_once_are_written_a_few_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        session, replicas, log = Counting(tree := Tree()), Replicas(), open_partition(tmp_path)
        changed, all_changed = list[TopicPartition](), asyncio.Event()

        def on_changed(place: TopicPartition) -> None:
            changed.append(place)
            if len(changed) == len(places):
                all_changed.set()

        tracker = IsrTracker(session, replicas, replicas.find, lambda: LAG, on_changed, Mock())
        places = [TopicPartition("orders", index) for index in range(10 * WRITTEN_AT_ONCE)]
        for place in places:
            replicas.put(
                LeaderReplica(
                    ME,
                    leadership(place, isr=(ME, F2)),
                    log,
                    high_watermark=Offset(0),
                    now_ms=0,
                    max_lag_ms=LAG,
                )
            )
            state = layout.encode_partition_state(layout.LeaderAndIsr(ME, LeaderEpoch(0), 7, (ME,)))
            await tree.session().create(paths.partition_state_path(place), state, make_parents=True)
        tracker.shrink(10 * LAG)
        for _ in range(10):
            await asyncio.sleep(0)
        assert session.begun == WRITTEN_AT_ONCE, "the others wait for their responses"
        session.goes_on.set()
        await all_changed.wait()
        assert tracker.shrinks == len(places)
        assert session.most_in_a_turn <= WRITTEN_AT_ONCE
        assert all(leader.isr == (ME,) for leader in replicas)
        await tracker.stop()

    asyncio.run(asyncio.wait_for(scenario(), 60))


# -- lost answers ------------------------------------------------------------


@pytest.mark.parametrize("losses", [["before"], ["after"], ["before", "before", "after", "before"]])
def test_a_write_whose_answer_is_lost_comes_through_once(run: Run, losses: list[str]) -> None:
    async def scenario(setting: Setting) -> None:
        setting.session.losses = losses
        setting.leader.on_follower_fetch(F2, 0, 0, 0)
        setting.expand()
        await asyncio.sleep(10)
        assert await setting.state() == (ALL, 1)
        assert (setting.leader.isr, setting.leader.partition_epoch) == (ALL, 1)
        assert (setting.tracker.expands, setting.tracker.failed_updates) == (1, 0)

    run(scenario, (ME, F2))


def test_until_the_tree_answers_the_new_one_counts_for_the_high_watermark(run: Run) -> None:
    async def scenario(setting: Setting) -> None:
        setting.session.losses = ["before"] * 1000
        setting.expand()
        setting.leader.append(batch_of(1), NOW)
        setting.leader.on_follower_fetch(F2, 1, 0, 0)
        await asyncio.sleep(LAG / 4000)
        assert setting.leader.high_watermark == 0
        assert setting.leader.on_follower_fetch(F3, 1, 0, 0).high_watermark_moved

    run(scenario, (ME, F2))


# -- others write, too -------------------------------------------------------


def test_the_controllers_write_of_the_same_epoch_is_adopted(run: Run) -> None:
    async def scenario(setting: Setting) -> None:
        setting.session.before_write = lambda: setting.write(0, (ME,))
        setting.expand()
        await settle()
        assert await setting.state() == ((ME,), 1)
        assert (setting.leader.isr, setting.leader.partition_epoch) == ((ME,), 1)
        assert (setting.tracker.expands, setting.tracker.failed_updates) == (0, 1)

    run(scenario, (ME, F2))


def test_a_deposed_leader_changes_nothing_and_begins_nothing_else(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(setting: Setting) -> None:
        setting.session.before_write = lambda: setting.write(1, (F2,), leader=F2)
        setting.expand()
        await settle()
        assert await setting.state() == ((F2,), 1)
        assert (setting.leader.isr, setting.leader.partition_epoch) == ((ME, F2), 0)
        assert setting.leader.decide_shrink(100 * LAG, LAG) is None
        assert setting.tracker.failed_updates == 1
        assert "broker 2 leads in epoch 1" in caplog.text

    run(scenario, (ME, F2))


def test_an_expired_session_ends_the_attempt(run: Run) -> None:
    async def scenario(setting: Setting) -> None:
        await setting.session.expire()
        setting.expand()
        await settle()
        assert await setting.state() == ((ME, F2), 0)
        assert setting.tracker.failed_updates == 1

    run(scenario, (ME, F2))


def test_what_was_written_for_a_leader_that_is_gone_is_for_the_next_one_to_learn(run: Run) -> None:
    async def scenario(setting: Setting) -> None:
        async def replaced() -> None:
            setting.replicas.remove(PARTITION)

        setting.session.before_write = replaced
        setting.expand()
        await settle()
        assert await setting.state() == (ALL, 1)
        assert setting.leader.isr == (ME, F2)
        assert setting.changed == []

    run(scenario, (ME, F2))


def test_a_leader_that_is_gone_stops_trying(run: Run) -> None:
    async def scenario(setting: Setting) -> None:
        setting.session.losses = ["before"] * 1000
        setting.expand()
        await settle()
        setting.replicas.remove(PARTITION)
        await asyncio.sleep(10)
        assert len(setting.session.losses) >= 998

    run(scenario, (ME, F2))
