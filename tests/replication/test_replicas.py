"""The map of what this broker holds: one role each, and a reason for what it does not lead."""

from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch, TopicPartition
from barnabas.log.log import Log
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leadership import Leadership
from barnabas.replication.replicas import Replicas
from tests.log.batches import PARTITION, append, open_partition
from tests.replication.following import FOLLOWER, LEADER
from tests.replication.leading import sole_leader


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_partition(tmp_path)


def follower(log: Log) -> FollowerReplica:
    leadership = Leadership(
        PARTITION, None, LEADER, LeaderEpoch(1), (), 0, (LEADER, FOLLOWER), controller_epoch=1
    )
    return FollowerReplica(FOLLOWER, leadership, log, 1)


def why_not(replicas: Replicas) -> ErrorCode:
    with pytest.raises(BrokerError) as error:
        replicas.leader(*PARTITION)
    return error.value.code


def test_a_partition_has_one_role_at_a_time(log: Log) -> None:
    append(log)
    append(log)
    replicas, leads, follows = Replicas(), sole_leader(log), follower(log)
    replicas.put(leads)
    assert replicas.leader(*PARTITION) is replicas.find(*PARTITION) is leads
    assert (list(replicas), len(replicas), list(replicas.followers())) == ([leads], 1, [])
    assert replicas.high_watermarks() == {PARTITION: 2}
    replicas.put(follows)
    assert replicas.find(*PARTITION) is None
    assert replicas.follower(*PARTITION) is replicas.get(PARTITION) is follows
    assert (list(replicas), list(replicas.followers())) == ([], [follows])
    assert replicas.high_watermarks() == {PARTITION: 1}
    replicas.put(leads)
    assert replicas.follower(*PARTITION) is None
    assert replicas.remove(PARTITION) is leads
    assert replicas.get(PARTITION) is None


def test_a_lookup_without_a_leader_here_returns_the_reason(log: Log) -> None:
    replicas = Replicas()
    assert why_not(replicas) is ErrorCode.unknown_topic_or_partition
    replicas.put(follower(log))
    assert why_not(replicas) is ErrorCode.not_leader_or_follower
    replicas.take_offline(PARTITION)
    assert why_not(replicas) is ErrorCode.kafka_storage_error
    assert replicas.is_offline(PARTITION)
    assert not replicas.is_offline(TopicPartition("orders", 1))
    assert replicas.high_watermarks() == {}
    replicas.remove(PARTITION)
    assert why_not(replicas) is ErrorCode.unknown_topic_or_partition
