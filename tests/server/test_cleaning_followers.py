"""Cleaning where a partition is followed: it may be cut at any time, and is cleaned as well."""

from collections.abc import Callable
from pathlib import Path

from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.log import Log
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leadership import Leadership
from tests.log.batches import NOW
from tests.replication.leading import F2, ME
from tests.server.test_log_cleaner import Setting, on_a_loop


@on_a_loop
async def test_a_log_cut_while_the_last_swap_is_synced_is_dirty_from_there_on(
    tmp_path: Path,
) -> None:
    whole = Setting(tmp_path / "whole")
    assert await whole.clean_once()
    for step in range(whole.offload.steps - 6, whole.offload.steps + 1):
        here = Setting(tmp_path / str(step))
        log = here.log()
        here.offload.at[step] = cut_of(log)
        assert await here.clean_once()
        assert log.log_end_offset <= 30
        assert log.first_dirty_offset is None or log.first_dirty_offset <= log.log_end_offset


@on_a_loop
async def test_a_follower_cleans_its_log_as_well(tmp_path: Path) -> None:
    here = Setting(tmp_path)
    log, partition = here.log(), here.partitions[0]
    leadership = Leadership(partition, None, F2, LeaderEpoch(0), (F2,), 0, (F2, ME), 1)
    size = log.size_bytes
    here.replicas.put(FollowerReplica(ME, leadership, log, 0))
    assert not await here.clean_once()  # nothing is known to be committed
    here.replicas.put(FollowerReplica(ME, leadership, log, log.log_end_offset))
    assert await here.clean_once()
    assert log.size_bytes < size


def cut_of(log: Log) -> Callable[[], object]:
    return lambda: log.truncate_to(Offset(30), NOW)
