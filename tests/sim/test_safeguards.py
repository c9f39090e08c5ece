"""Each safeguard acts where it should, and does not when disabled."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from barnabas.base.randomness import Random
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.coordinator.result import TransactionEnd
from barnabas.disk.disk import RealDisk
from barnabas.log.logs import Logs
from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.partition_roles import PartitionRoles
from barnabas.server.coordinators.leader_writer import LeaderWriter
from barnabas.server.transactions.marker_writer import MarkerWriter
from barnabas.wire.records.records import ControlType, EndTransactionMarker, Record, build_batch
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import Tree
from tests.log.batches import CONFIG, fill, open_partition
from tests.log.test_producer_state import batch
from tests.replication.leading import F2, ME, leadership
from tests.sim.test_sim_disk import Noon

PARTITION = TopicPartition("orders", 0)
LAG_MS = 1000
BOTH = [True, False]


def leader_in(folder: Path, safeguards: Safeguards, *isr: BrokerId) -> LeaderReplica:
    return LeaderReplica(
        ME,
        leadership(PARTITION, isr=isr, replicas=(ME, F2)),
        open_partition(folder),
        high_watermark=Offset(0),
        now_ms=0,
        max_lag_ms=LAG_MS,
        safeguards=safeguards,
    )


def logs_in(folder: Path, safeguards: Safeguards) -> Logs:
    logs = Logs([RealDisk(str(folder))], clock=Noon(), random=Random(1), safeguards=safeguards)
    logs.acquire(BrokerId(1), "cluster")
    return logs


@pytest.mark.parametrize("in_force", BOTH)
def test_a_leader_does_not_overwrite_a_newer_isr(tmp_path: Path, in_force: bool) -> None:
    async def scenario() -> layout.LeaderAndIsr:
        path, session = paths.partition_state_path(PARTITION), Tree().session()
        newer = layout.LeaderAndIsr(F2, LeaderEpoch(5), 7, (F2,))
        await session.create(path, b"", make_parents=True)
        await session.set(path, layout.encode_partition_state(newer))
        safeguards, replicas = Safeguards(isr_version_check=in_force), Replicas()
        leader = leader_in(tmp_path, safeguards, ME, F2)
        replicas.put(leader)
        tracker = IsrTracker(
            session, replicas, replicas.find, lambda: LAG_MS, Mock(), Mock(), safeguards
        )
        tracker.shrink(2 * LAG_MS)
        await asyncio.sleep(0.01)
        await tracker.stop()
        return layout.decode_partition_state(PARTITION, (await session.get(path))[0])

    found = asyncio.run(scenario())
    assert (found.leader, found.isr) == ((F2, (F2,)) if in_force else (ME, (ME,)))


@pytest.mark.parametrize("in_force", BOTH)
def test_a_past_controller_is_fenced(in_force: bool) -> None:
    safeguards = Safeguards(controller_epoch_fence=in_force)
    environment = Mock(safeguards=safeguards)
    parts: list[Any] = [ME, *(Mock() for _ in range(7)), environment, Mock()]
    partitions = PartitionRoles(*parts)
    partitions.check_controller(5)
    if in_force:
        with pytest.raises(BrokerError) as refused:
            partitions.check_controller(4)
        assert refused.value.code is ErrorCode.stale_controller_epoch
    else:
        partitions.check_controller(4)


@pytest.mark.parametrize("in_force", BOTH)
def test_a_recovery_point_covers_only_flushed_records(tmp_path: Path, in_force: bool) -> None:
    logs = logs_in(tmp_path, Safeguards(flush_before_checkpoint=in_force))
    fill(logs.create(PARTITION, None, CONFIG), 20)
    for write in logs.checkpoints.writes({}):
        write.run()
    logs.release()
    written = (tmp_path / "recovery-point-offset-checkpoint").read_bytes()
    assert written == b"0\n1\norders 0 %d\n" % (0 if in_force else 20)


@pytest.mark.parametrize("in_force", BOTH)
def test_acks_all_is_rejected_below_min_insync_replicas(tmp_path: Path, in_force: bool) -> None:
    leader = leader_in(tmp_path, Safeguards(min_insync_check=in_force), ME)
    leader.log.config = replace(CONFIG, min_insync_replicas=2)
    assert leader.is_under_min_isr is in_force
    fill(leader.log, 1)
    leader.on_time(2 * LAG_MS, LAG_MS)
    assert leader.high_watermark == (0 if in_force else 1)


@pytest.mark.parametrize("in_force", BOTH)
def test_a_duplicate_batch_is_recognized(tmp_path: Path, in_force: bool) -> None:
    logs = logs_in(tmp_path, Safeguards(sequence_check=in_force))
    producers = logs.create(PARTITION, None, CONFIG).producers
    first = batch(0, 3)
    producers.apply(first, 10, timestamp=1)
    before = producers.check(first)
    assert (before is not None and before.base_offset == 10) is in_force
    logs.release()


@pytest.mark.parametrize("in_force", BOTH)
def test_what_a_coordinator_writes_is_flushed_before_anyone_acts_on_it(
    tmp_path: Path, in_force: bool
) -> None:
    replicas, leader = Replicas(), leader_in(tmp_path, IN_FORCE, ME)
    leader.log.config = replace(CONFIG, flush_messages=1)
    replicas.put(leader)
    writer = LeaderWriter(replicas, Mock(), Safeguards(flush_before_answer=in_force))
    writer.append(PARTITION, memoryview(build_batch([Record(0, 0, None, b"state")])), 0)
    assert leader.log.unflushed_messages == (0 if in_force else 1)
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    writer.append_marker(PARTITION, TransactionEnd(7, 0, marker), 0)
    assert leader.log.unflushed_messages == (0 if in_force else 2)


@pytest.mark.parametrize("in_force", BOTH)
def test_a_marker_that_has_to_be_replicated_is_not_written_at_once(
    tmp_path: Path, in_force: bool
) -> None:
    replicas, leader = Replicas(), leader_in(tmp_path, IN_FORCE, ME, F2)
    replicas.put(leader)
    ports = Mock(writer=LeaderWriter(replicas, Mock()), clock=Noon())
    safeguards = Safeguards(replicate_markers=in_force)
    writer = MarkerWriter(ports, Mock(), Mock(), safeguards)
    end = TransactionEnd(7, 0, EndTransactionMarker(ControlType.COMMIT, 0))
    written = writer.write_at_once(PARTITION, end)
    assert written is (None if in_force else ErrorCode.none)
    assert leader.log.log_end_offset == (0 if in_force else 1)


def test_all_safeguards_are_enabled_by_default() -> None:
    assert Safeguards() == IN_FORCE
    assert all(getattr(IN_FORCE, name) for name in Safeguards.__slots__)
