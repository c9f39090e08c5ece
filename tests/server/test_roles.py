"""LeaderAndIsr as anybody may send it: what cannot be is refused, and leaves no trace on disk."""

import asyncio
import re
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.server.cluster.partition_roles import AT_ONCE, CREATION
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.server.raw import Insight, request, with_broker

# No controller of a test comes so far.
EPOCH = 1000


class Looked(DelayedOperation):
    """Waits for ever, and counts how often it was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return False

    def on_complete(self) -> None:
        raise AssertionError("nothing completes it")


def frame_to_lead(
    topic: str,
    index: int = 0,
    replicas: tuple[int, ...] = (0,),
    epoch: int = EPOCH,
    count: int = 1,
    topic_id: int = 7,
    is_new: bool = True,
) -> bytes:
    """The frame of a controller that wants broker 0 to lead so many partitions."""
    states = tuple(
        LeaderAndIsrPartitionState(
            partition_index=each,
            controller_epoch=epoch,
            leader=0,
            leader_epoch=0,
            isr=replicas,
            partition_epoch=0,
            replicas=replicas,
            is_new=is_new,
        )
        for each in range(index, index + count)
    )
    message = LeaderAndIsrRequest(
        controller_id=0,
        controller_epoch=epoch,
        topic_states=(
            LeaderAndIsrTopicState(
                topic_name=topic, topic_id=uuid.UUID(int=topic_id), partition_states=states
            ),
        ),
        live_leaders=(LeaderAndIsrLiveLeader(broker_id=0, host_name="127.0.0.1", port=1),),
    )
    return request(ApiKey.LEADER_AND_ISR, 7, message)


def folders(below: Path) -> list[str]:
    return sorted(str(path.relative_to(below)) for path in below.rglob("*") if path.is_dir())


def code_of(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partition_errors[0].error_code)


@pytest.mark.parametrize("name", ["../escaped", "a/b", ".", "..", "", "x\0y", "y" * 250])
def test_no_directory_is_created_for_an_invalid_topic_name(tmp_path: Path, name: str) -> None:
    async def scenario(insight: Insight) -> None:
        before = folders(tmp_path)
        client = await insight.connect()
        answer = await client.ask(frame_to_lead(name))
        assert code_of(answer) is ErrorCode.invalid_topic_exception
        assert folders(tmp_path) == before
        assert not insight.running.broker.logs.offline

    with_broker(tmp_path / "logs", scenario)


@pytest.mark.parametrize(("index", "replicas"), [(-1, (0,)), (0, (1, 2))])
def test_no_directory_is_created_for_a_partition_without_a_replica_here(
    tmp_path: Path, index: int, replicas: tuple[int, ...]
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        answer = await client.ask(frame_to_lead("orders", index, replicas))
        assert code_of(answer) is ErrorCode.unknown_topic_or_partition
        assert folders(tmp_path) == []

    with_broker(tmp_path, scenario)


def test_others_get_their_turn_between_logs_that_are_created(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        answer = asyncio.ensure_future(client.ask(frame_to_lead("orders", count=10 * AT_ONCE)))
        logs, created = insight.running.broker.logs, [0]
        while not answer.done():
            await asyncio.sleep(0)
            created.append(len(list(logs)))
        steps = [after - before for before, after in pairwise(created)]
        assert sum(steps) == 10 * AT_ONCE
        assert max(steps) <= AT_ONCE // CREATION

    with_broker(tmp_path, scenario, controlled_shutdown_enable="false")


def test_a_past_controller_is_refused_whole(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        assert code_of(await client.ask(frame_to_lead("orders"))) is ErrorCode.none
        refused = await client.ask(frame_to_lead("shipments", epoch=EPOCH - 1))
        assert (refused.error_code, refused.topics) == (ErrorCode.stale_controller_epoch, ())
        assert folders(tmp_path) == ["orders-0"]

    with_broker(tmp_path, scenario, controlled_shutdown_enable="false")


def test_a_log_of_a_topic_whose_name_another_has_now_is_set_aside_unless_it_has_a_role(
    tmp_path: Path,
) -> None:
    """The broker was cut off when the topic was deleted, perhaps also when the partition moved."""

    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        assert code_of(await client.ask(frame_to_lead("orders"))) is ErrorCode.none
        other = frame_to_lead("orders", topic_id=8)
        assert code_of(await client.ask(other)) is ErrorCode.inconsistent_topic_id
        assert folders(tmp_path) == ["orders-0"]
        parts = insight.running.broker
        parts.replicas.remove(TopicPartition("orders", 0))
        assert code_of(await client.ask(other)) is ErrorCode.none
        new, stray = folders(tmp_path)
        assert new == "orders-0"
        assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-stray", stray)
        assert (
            "topic_id: AAAAAAAAAAAAAAAAAAAABw"
            in (tmp_path / stray / "partition.metadata").read_text()
        )
        log = parts.logs.get(TopicPartition("orders", 0))
        assert log is not None
        assert log.topic_id == uuid.UUID(int=8)

    with_broker(tmp_path, scenario, controlled_shutdown_enable="false")


def test_a_log_is_not_set_aside_while_the_topics_own_log_may_be_in_a_directory_that_failed(
    tmp_path: Path,
) -> None:
    """An empty log would take the place of committed records, and followers would truncate."""

    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        assert code_of(await client.ask(frame_to_lead("orders"))) is ErrorCode.none
        parts = insight.running.broker
        parts.replicas.remove(TopicPartition("orders", 0))
        parts.logs.offline["/failed"] = DiskFault("/failed", OSError("it failed"))
        other = frame_to_lead("orders", topic_id=8, is_new=False)
        assert code_of(await client.ask(other)) is ErrorCode.kafka_storage_error
        assert folders(tmp_path) == ["orders-0"]
        assert parts.replicas.is_offline(TopicPartition("orders", 0))
        del parts.logs.offline["/failed"]

    with_broker(tmp_path, scenario, controlled_shutdown_enable="false")


def test_a_request_that_waits_for_many_partitions_is_checked_once_for_all_of_them(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        await client.ask(frame_to_lead("orders", count=40))
        waiting = Looked()
        keys = [("orders", each) for each in range(40)]
        insight.delayed.followers.try_complete_else_watch(waiting, keys, 60_000)
        await client.ask(frame_to_lead("orders", count=40))
        assert waiting.tries == 2
        insight.delayed.followers.cancel(waiting)

    with_broker(tmp_path, scenario, controlled_shutdown_enable="false")
