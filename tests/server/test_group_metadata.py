"""Groups hear of topics that came or went, whatever happens to their own partitions meanwhile."""

from collections.abc import Callable, Sequence
from typing import cast

from barnabas.base.ids import TopicPartition
from barnabas.server.cluster.metadata_cache import Updated
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.group_shards import ActiveShard


class FailingShard:
    """One in whose folder nothing can be written any more."""

    is_loaded = False

    def __init__(self, fail: Callable[[], None]) -> None:
        self._fail = fail
        self.was_told = False

    def on_partitions_deleted(self, _: Sequence[TopicPartition]) -> None:
        self.was_told = True
        self._fail()


def test_a_folder_that_fails_when_offsets_are_forgotten_takes_its_shards_with_it() -> None:
    coordinator = GroupCoordinator.__new__(GroupCoordinator)
    shards = [FailingShard(lambda: coordinator._active.clear()) for _ in range(2)]
    coordinator._active = {index: cast(ActiveShard, each) for index, each in enumerate(shards)}
    coordinator.on_metadata(Updated(("topic",), ()))
    assert [each.was_told for each in shards] == [True, False]
