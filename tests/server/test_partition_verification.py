"""Questions to coordinators of transactions: each is answered, also when the broker stops."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.transactions.partition_verification import (
    Asked,
    Codes,
    PartitionVerification,
)
from barnabas.server.transactions.transaction_topic import TRANSACTION_TOPIC
from barnabas.transactions.transaction_messages import AddPartitions, Producer
from barnabas.transactions.transaction_metadata import EPOCH_BUMP
from tests.server.test_marker_channels import DirectPeers, cluster

AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def verification(port: int, own: Any = None, coordinator: int = 0) -> PartitionVerification:
    """Of broker 1; broker 0, at this port, coordinates all transactional ids, or broker 1."""
    metadata = cluster({coordinator: port}, {TopicPartition(TRANSACTION_TOPIC, 0): coordinator})
    config = BrokerConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0"})
    configs: Any = SimpleNamespace(broker=config)
    peers: Any = DirectPeers()
    failures = FailureChannel(asyncio.get_running_loop())
    return PartitionVerification(BrokerId(1), configs, metadata, peers, failures, own)


async def with_silent(
    test: Callable[[PartitionVerification, asyncio.Event], Awaitable[None]],
) -> None:
    """Run a test beside a coordinator that never answers; the event says that it was asked."""
    asked, ended = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        asked.set()
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with asyncio.timeout(10):
        await test(verification(server.sockets[0].getsockname()[1]), asked)
    ended.set()
    server.close()


def test_a_broker_that_stops_does_not_wait_for_a_coordinator_that_is_silent() -> None:
    async def scenario(verifying: PartitionVerification, asked: asyncio.Event) -> None:
        sent = asyncio.ensure_future(verifying.ask(Asked("sent", 1, 0, (AT,))))
        await asked.wait()
        queued = asyncio.ensure_future(verifying.ask(Asked("queued", 2, 0, (AT,))))
        await asyncio.sleep(0)
        await verifying.close()
        assert await sent == {AT: ErrorCode.network_exception}
        assert await queued == {AT: ErrorCode.network_exception}

    asyncio.run(with_silent(scenario))


def test_questions_about_one_transaction_wait_together_and_each_gets_its_own_answer() -> None:
    """T34"""
    first, second, later = (
        Asked("id", 1, 0, (AT,)),
        Asked("id", 1, 0, (OTHER,)),
        Asked("id", 1, 1, ()),
    )

    async def scenario(verifying: PartitionVerification, asked: asyncio.Event) -> None:
        sent = asyncio.ensure_future(verifying.ask(Asked("sent", 1, 0, (AT,))))
        await asked.wait()
        both = [asyncio.ensure_future(verifying.ask(each)) for each in (first, second)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in both)
        fence = asyncio.ensure_future(verifying.ask(later))
        assert await asyncio.gather(*both) == [
            {AT: ErrorCode.invalid_producer_epoch},
            {OTHER: ErrorCode.invalid_producer_epoch},
        ]
        await verifying.close()
        await asyncio.gather(sent, fence)

    asyncio.run(with_silent(scenario))


def test_the_coordinator_of_this_broker_is_asked_without_a_connection() -> None:
    class Own:
        def __init__(self) -> None:
            self.asked: list[AddPartitions] = []

        def verify(self, request: AddPartitions) -> Codes:
            self.asked.append(request)
            return {AT: ErrorCode.none, OTHER: ErrorCode.producer_fenced}

    async def scenario() -> None:
        own = Own()
        verifying = verification(1, own, coordinator=1)
        assert await verifying.ask(Asked("id", 7, 3, (AT, OTHER))) == {
            AT: ErrorCode.none,
            OTHER: ErrorCode.invalid_producer_epoch,
        }
        request = AddPartitions("id", Producer(7, 3), frozenset({AT, OTHER}), EPOCH_BUMP)
        assert own.asked == [request]
        await verifying.close()

    asyncio.run(scenario())
