"""Scripted faults tolerate the deletion of their partition."""

from barnabas.base.ids import TopicPartition
from barnabas.sim.faults.scripted_faults import _is_settled
from barnabas.sim.faults.scripting import leader_of
from barnabas.sim.world.seed_settings import settings_of
from barnabas.sim.world.sim_world import SimWorld


def test_a_deleted_partition_has_no_leader() -> None:
    gone = TopicPartition("gone", 0)
    with SimWorld(settings_of(7)) as world:
        world.loop.run_until_complete(world.loop.spawn(None, world.start()))
        assert leader_of(world, gone) == -1
        assert not _is_settled(world, gone, (0, 1))
