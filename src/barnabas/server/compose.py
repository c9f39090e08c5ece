"""The start of one broker and its end: the order of the steps, and their reverse."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Self, TypeAlias

from barnabas.base.clock import SystemClock
from barnabas.base.errors import LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.offload import ThreadOffload
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.disk.disk import RealDisk
from barnabas.log.logs import Logs
from barnabas.server import lifecycle
from barnabas.server.broker import Broker
from barnabas.server.cluster.kept_session import keep_session
from barnabas.server.cluster.membership import find_broker_id, find_cluster_id, join, leave
from barnabas.server.environment import Environment
from barnabas.server.metrics.metrics_listener import Address, MetricsListener
from barnabas.server.node import Node
from barnabas.server.node_state import NodeState
from barnabas.server.settings import check_security, make_authorizer, metrics_address

Failed: TypeAlias = "asyncio.Future[BaseException]"
Ending: TypeAlias = Callable[[], Awaitable[None]]

__all__ = ["Environment", "RunningBroker", "start"]


@dataclass(slots=True)
class RunningBroker:
    """A broker that serves; `stop` ends it cleanly."""

    broker: Broker
    endpoints: list[Listener]
    failed: "asyncio.Future[BaseException]"
    metrics: Address | None  # of the metrics listener, if there is one
    _ending: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def stop(self) -> None:
        """Hand over leaderships, stop serving, close the logs: the next start need not recover."""
        await self._ending.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def start(config: BrokerConfig, environment: Environment | None = None) -> RunningBroker:
    """Start a broker; clients can use it when this returns.

    Raises  ConfigError, DiskFault, ZnodeError: nothing is left running
    """
    async with AsyncExitStack() as ending:
        running = await _start(config, environment or _machine(ending), ending)
        running._ending = ending.pop_all()
        return running


def _machine(ending: AsyncExitStack) -> Environment:
    executor = ThreadPoolExecutor(thread_name_prefix="barnabas-disk")
    ending.callback(executor.shutdown)
    offload = ThreadOffload(executor)
    return Environment(SystemClock(), Random(), offload, RealDisk, is_process=True)


async def _start(
    config: BrokerConfig, environment: Environment, ending: AsyncExitStack
) -> RunningBroker:
    check_security(config)
    make_authorizer(config)
    metrics_at = metrics_address(config)
    failures = FailureChannel(asyncio.get_running_loop())
    failed = failures.fatal_error
    disks = [environment.disk(log_dir) for log_dir in config.log_dirs()]
    coordination = await join(config, environment, disks[0], ending)
    logs = Logs(
        disks,
        clock=environment.clock,
        random=environment.random,
        producer_expiration_ms=config.int("producer.id.expiration.ms"),
        safeguards=environment.safeguards,
    )
    cluster_id = await find_cluster_id(coordination, logs, environment.random)
    broker_id = await find_broker_id(coordination, config, logs)
    logs.acquire(broker_id, cluster_id)
    ending.callback(logs.release)
    await keep_session(config, coordination, ending)

    state = NodeState(config, environment, coordination, logs, broker_id, cluster_id, failures)
    node = Node(state)
    ending.callback(state.timer.close)
    if environment.is_process:
        state.loop_monitor.start()
        ending.callback(state.loop_monitor.stop)
    ending.push_async_callback(node.config_changes.stop)
    ending.push_async_callback(node.features.stop)
    ending.push_async_callback(state.jwks.stop)
    ending.push_async_callback(node.tokens.stop)
    if state.acl_admin is not None:
        ending.push_async_callback(state.acl_admin.stop)
    await lifecycle.load(node)
    if metrics_at is not None:
        metrics_at = await _serve_metrics(node, metrics_at, ending)
    # The order of stopping, read from below: leaderships, groups (members get NOT_COORDINATOR while
    # their connections are open), sockets, requests at hand, fetchers, housekeeping, the logs; the
    # session with the tree began first, and ends last.
    ending.push_async_callback(_unless_broken, failed, partial(lifecycle.close_logs, node))
    ending.push_async_callback(state.removals.stop)
    ending.push_async_callback(node.log_dir_failures.stop)
    ending.push_async_callback(node.moves.stop)
    node.housekeeping.start()
    ending.push_async_callback(node.housekeeping.stop)
    if config.bool("log.cleaner.enable"):
        node.cleaner.start()
    ending.push_async_callback(node.cleaner.stop)
    node.isr.start()
    ending.push_async_callback(node.isr.stop)
    ending.push_async_callback(node.fetchers.close)
    ending.push_async_callback(lifecycle.finish, node)
    ending.push_async_callback(node.verification.close)
    ending.push_async_callback(node.listeners.close)
    ending.push_async_callback(node.groups.stop)
    ending.push_async_callback(node.transactions.stop)
    ending.push_async_callback(lifecycle.leave, node)
    endpoints = await lifecycle.serve(node)
    ending.push_async_callback(_unless_broken, failed, partial(lifecycle.hand_over, node))
    ending.push_async_callback(_if_broken, failed, partial(leave, coordination))
    return RunningBroker(node.broker, endpoints, failed, metrics_at)


async def _serve_metrics(node: Node, at: Address, ending: AsyncExitStack) -> Address:
    # Here, since the library takes time and memory that most brokers need not spend.
    from barnabas.server.metrics.prometheus import Metrics

    listener = MetricsListener(Metrics(node.observed()).page)
    opened = await listener.open(at)
    ending.push_async_callback(listener.close)
    return opened


async def _unless_broken(failed: Failed, ending: Ending) -> None:
    # After a broken law nothing in memory is to be trusted: the next start recovers from disk.
    if not _is_broken(failed):
        await ending()


async def _if_broken(failed: Failed, ending: Ending) -> None:
    # It hands nothing over: the others elect as soon as its session is gone.
    if _is_broken(failed):
        await ending()


def _is_broken(failed: Failed) -> bool:
    return failed.done() and isinstance(failed.result(), LawBroken)
