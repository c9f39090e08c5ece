"""The clients of the simulation against brokers on a real loop: what they do and write down."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import OperationHistory, OperationOutcome, Poll, Polled, Send
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.clients.producer_client import Producer
from barnabas.testing import Cluster

T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


def bootstrap(cluster: Cluster) -> list[Address]:
    addresses = (cluster.address(broker).rsplit(":", 1) for broker in cluster.brokers)
    return [(host, int(port)) for host, port in addresses]


def run(scenario: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        try:
            return await asyncio.wait_for(scenario, 60)
        finally:
            await asyncio.sleep(0)  # what was aborted closes in the next turn of the loop

    return asyncio.run(bounded())


def new_history() -> OperationHistory:
    return OperationHistory(asyncio.get_running_loop().time)


def sent(history: OperationHistory) -> list[int]:
    return [value for _, send in history.of(Send) for value in send.values]


def polled(history: OperationHistory, at: TopicPartition) -> list[tuple[int, int]]:
    return [
        record
        for operation, poll in history.of(Poll)
        if poll.at == at and isinstance(operation.got, Polled)
        for record in operation.got.records
    ]


async def read(
    cluster: Cluster, history: OperationHistory, at: TopicPartition, count: int
) -> list[int]:
    """The values of a partition, when there are so many."""
    consumer = Consumer("consumer", bootstrap(cluster), Random(2), history)
    consumer.assign({at: 0})
    while consumer.positions[at] < count:
        await consumer.poll()
    consumer.close()
    return [value for _, value in polled(history, at)]


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_a_producer_sends_a_consumer_reads_in_order(cluster: Cluster, acks: int) -> None:
    at = TopicPartition(f"acks{acks % 3}", 1)
    cluster.create_topic(at.topic, partitions=2)

    async def scenario() -> None:
        history = new_history()
        producer = Producer("producer", bootstrap(cluster), Random(1), history, acks=acks)
        assert await producer.send(at, [3, 1, 2])
        assert await producer.send(at, [1])
        assert await read(cluster, history, at, 7) == sent(history) == [1, 2, 3, 4, 5, 6, 7]
        producer.close()
        outcomes = {operation.outcome for operation, _ in history.of(Send)}
        assert outcomes == {OperationOutcome.OK if acks else OperationOutcome.UNKNOWN}

    run(scenario())


def test_a_batch_that_may_be_there_is_sent_again_until_it_is(cluster: Cluster) -> None:
    at = TopicPartition("again", 0)
    cluster.create_topic(at.topic)

    async def scenario() -> None:
        history = new_history()
        producer = Producer("producer", bootstrap(cluster), Random(1), history, acks=-1)
        cluster.fail_next("produce", "request_timed_out", times=2)
        cluster.fail_next("produce", "not_leader_or_follower")
        assert await producer.send(at, [1, 2])
        cluster.fail_next("produce", "not_enough_replicas")
        assert await producer.send(at, [1, 2])
        assert await read(cluster, history, at, 6) == sent(history)
        producer.close()

    run(scenario())


def test_after_a_refusal_the_producer_goes_on_in_another_epoch(cluster: Cluster) -> None:
    at = TopicPartition("refused", 0)
    cluster.create_topic(at.topic)

    async def scenario() -> None:
        history = new_history()
        producer = Producer("producer", bootstrap(cluster), Random(1), history, acks=-1)
        assert await producer.send(at, [1])
        cluster.fail_next("produce", "message_too_large")
        assert not await producer.send(at, [1, 1])
        assert await producer.send(at, [1])
        producer.close()
        (_, first), (refused, _), (after, _), (_, last) = history.of(Send)
        assert (refused.outcome, refused.why) == (OperationOutcome.FAILED, "message_too_large")
        assert after.outcome is OperationOutcome.FAILED, (
            "its turn comes only after the one that was refused"
        )
        assert first.producer_epoch < last.producer_epoch or (first.producer_id != last.producer_id)
        assert len(await read(cluster, history, at, 2)) == 2

    run(scenario())


@pytest.mark.parametrize("by_name", [False, True])
def test_a_consumer_goes_on_from_the_first_record_that_is_left(
    cluster: Cluster, by_name: bool
) -> None:
    at = TopicPartition(f"trimmed{by_name:d}", 0)
    cluster.create_topic(at.topic)

    async def scenario() -> None:
        history = new_history()
        producer = Producer("producer", bootstrap(cluster), Random(1), history, acks=-1)
        admin = Admin("admin", bootstrap(cluster), Random(1), history)
        consumer = Consumer("consumer", bootstrap(cluster), Random(2), history, by_name=by_name)
        assert await producer.send(at, [5])
        await admin.connections.refresh()
        assert (await admin.trim(at, 3)).outcome is OperationOutcome.OK
        assert (await admin.trim(at, 6)).outcome is OperationOutcome.FAILED
        consumer.assign({at: 0})
        while consumer.positions[at] < 5:
            await consumer.poll()
        assert polled(history, at) == [(3, 4), (4, 5)]
        for client in (producer, admin, consumer):
            client.close()

    run(scenario())


def test_clients_find_the_next_leader() -> None:
    at = TopicPartition("moved", 0)
    with Cluster(brokers=2, config={"min.insync.replicas": "1"}) as cluster:
        cluster.create_topic(at.topic)

        async def scenario() -> None:
            history = new_history()
            producer = Producer("producer", bootstrap(cluster), Random(1), history, acks=-1)
            consumer = Consumer("consumer", bootstrap(cluster), Random(2), history)
            consumer.assign({at: 0})
            assert await producer.send(at, [2])
            await consumer.poll()
            cluster.kill_unclean(cluster.leader_of(at.topic), at_once=True)
            assert await producer.send(at, [2])
            while consumer.positions[at] < 4:
                await consumer.poll()
            assert polled(history, at) == list(enumerate(sent(history)))
            producer.close()
            consumer.close()

        run(scenario())
