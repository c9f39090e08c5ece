"""Ordeals go on, or end, whatever an administrator does to their partition meanwhile."""

from barnabas.base.ids import TopicPartition
from barnabas.sim.faults.scripted_faults import _is_settled, _leader
from barnabas.sim.world.seed_settings import setting_of
from barnabas.sim.world.sim_world import World


def test_nobody_leads_a_partition_that_was_deleted() -> None:
    gone = TopicPartition("gone", 0)
    with World(setting_of(7)) as world:
        world.loop.run_until_complete(world.loop.spawn(None, world.start()))
        assert _leader(world, gone) == -1
        assert not _is_settled(world, gone, (0, 1))
