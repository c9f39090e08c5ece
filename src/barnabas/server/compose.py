"""Starts one broker and ends it: what is begun in which order, and what is undone before what."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Self

from barnabas.base.clock import SystemClock
from barnabas.base.errors import LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.offload import ThreadOffload
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.disk.disk import RealDisk
from barnabas.log.logs import Logs
from barnabas.server.broker import Broker
from barnabas.server.cluster.membership import find_broker_id, find_cluster_id, join
from barnabas.server.environment import Seams
from barnabas.server.metrics.metrics_listener import Address, MetricsListener
from barnabas.server.node import Node
from barnabas.server.settings import check_protocols, metrics_address

__all__ = ["RunningBroker", "Seams", "start"]


@dataclass(slots=True)
class RunningBroker:
    """A broker that serves; `stop` ends it cleanly."""

    broker: Broker
    endpoints: list[Listener]
    failed: "asyncio.Future[BaseException]"
    metrics: Address | None  # where Prometheus may ask, if anywhere
    _ending: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def stop(self) -> None:
        """Let others lead, stop serving, then close the logs: the next start need not recover."""
        await self._ending.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def start(config: BrokerConfig, seams: Seams | None = None) -> RunningBroker:
    """A broker that clients can use when this returns.

    Raises  ConfigError, DiskFault, ZnodeError: nothing is left running
    """
    async with AsyncExitStack() as ending:
        running = await _start(config, seams or _machine(ending), ending)
        running._ending = ending.pop_all()
        return running


def _machine(ending: AsyncExitStack) -> Seams:
    executor = ThreadPoolExecutor(thread_name_prefix="barnabas-disk")
    ending.callback(executor.shutdown)
    return Seams(SystemClock(), Random(), ThreadOffload(executor), RealDisk)


async def _start(config: BrokerConfig, seams: Seams, ending: AsyncExitStack) -> RunningBroker:
    check_protocols(config)
    metrics_at = metrics_address(config)
    failures = FailureChannel(asyncio.get_running_loop())
    failed = failures.fatal_error
    disks = [seams.disk(folder) for folder in config.log_dirs()]
    coordination = await join(config, seams, disks[0], ending)
    logs = Logs(
        disks,
        clock=seams.clock,
        random=seams.random,
        producer_expiration_ms=config.int("producer.id.expiration.ms"),
        safeguards=seams.safeguards,
    )
    cluster_id = await find_cluster_id(coordination, logs, seams.random)
    broker_id = await find_broker_id(coordination, config, logs)
    logs.acquire(broker_id, cluster_id)
    ending.callback(logs.release)

    node = Node(config, seams, coordination, logs, broker_id, cluster_id, failures)
    ending.callback(node.timer.close)
    ending.push_async_callback(node.config_changes.stop)
    await node.load()
    if metrics_at is not None:
        metrics_at = await _serve_metrics(node, metrics_at, ending)
    # In the order of stopping, read from below: leaderships, groups (whoever waits in one is told
    # to look elsewhere while it can be told), sockets, requests at hand, what is copied from
    # others, duties, the logs; the session with the tree was begun first.
    ending.push_async_callback(_unless_broken, failed, node.close_logs)
    node.housekeeping.start()
    ending.push_async_callback(node.housekeeping.stop)
    if config.bool("log.cleaner.enable"):
        node.cleaner.start()
    ending.push_async_callback(node.cleaner.stop)
    node.isr.start()
    ending.push_async_callback(node.isr.stop)
    ending.push_async_callback(node.fetchers.close)
    ending.push_async_callback(node.finish)
    ending.push_async_callback(node.listeners.close)
    ending.push_async_callback(node.groups.stop)
    ending.push_async_callback(node.leave)
    endpoints = await node.serve()
    ending.push_async_callback(_unless_broken, failed, node.hand_over)
    return RunningBroker(node.broker, endpoints, failed, metrics_at)


async def _serve_metrics(node: Node, at: Address, ending: AsyncExitStack) -> Address:
    # Here, since the library takes time and memory that most brokers need not spend.
    from barnabas.server.metrics.prometheus import Metrics

    listener = MetricsListener(Metrics(node.observed()).page)
    opened = await listener.open(at)
    ending.push_async_callback(listener.close)
    return opened


async def _unless_broken(
    failed: "asyncio.Future[BaseException]", ending: Callable[[], Awaitable[None]]
) -> None:
    # After a broken law nothing in memory is to be trusted: the next start recovers from disk.
    if not (failed.done() and isinstance(failed.result(), LawBroken)):
        await ending()
