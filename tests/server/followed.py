"""A broker whose partitions have followers, for which the test speaks."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from barnabas.base.ids import BrokerId, Offset, TopicPartition
from barnabas.replication.leader.leader_replica import LeaderReplica
from tests.replication.leading import F2, ME, leadership
from tests.server.raw import Insight, RawClient, fetch

# The id of the broker under test.
BROKER: dict[str, object] = {"broker_id": int(ME)}


def lead(
    insight: Insight,
    topic: str,
    isr: tuple[BrokerId, ...] = (ME, F2),
    *,
    replicas: tuple[BrokerId, ...] | None = None,
    epoch: int = 1,
    high_watermark: int = 0,
    partition: int = 0,
    max_lag_ms: float = 30_000,
    leads_on: bool = False,
) -> LeaderReplica:
    """Let this broker lead with those followers, as a controller would tell it to."""
    replicas = isr if replicas is None else replicas
    key, before = TopicPartition(topic, partition), insight.leader(topic, partition)
    told = leadership(key, isr=isr, replicas=replicas, epoch=epoch)
    leader = LeaderReplica(
        ME,
        replace(told, topic_id=before.topic_id),
        before.log,
        high_watermark=Offset(high_watermark),
        now_ms=0,
        max_lag_ms=max_lag_ms,
        previous=before if leads_on else None,
    )
    insight.running.broker.replicas.put(leader)
    insight.delayed.on_partition(key)
    return leader


async def follow(
    client: RawClient,
    topic: str | UUID,
    offset: int,
    *,
    replica: int = F2,
    partition: int = 0,
    epoch: int = 1,
    **options: Any,
) -> Any:
    """The response to a follower that has all before `offset`."""
    asked = fetch((topic, partition, offset), replica_id=replica, epoch=epoch, **options)
    response = await client.ask(asked)
    return response.responses[0].partitions[0]
