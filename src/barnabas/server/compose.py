"""Joins the parts into one broker, bottom up; the only place that knows them all."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from barnabas.base.broker_config import BrokerConfig
from barnabas.base.clock import Clock, SystemClock
from barnabas.base.disk import Disk, RealDisk
from barnabas.base.errors import ConfigError, DiskFault, LawBroken
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.listeners import Listener
from barnabas.base.offload import Offload, ThreadOffload
from barnabas.base.randomness import Random
from barnabas.log.logs import Logs
from barnabas.purgatory.timer import Timer
from barnabas.replication.isr import IsrTracker
from barnabas.replication.replicas import Replicas
from barnabas.replication.throttle import ReplicationThrottle
from barnabas.server.broker import Broker
from barnabas.server.cleaning import LogCleaner
from barnabas.server.configs import Configs
from barnabas.server.delayed import Delayed
from barnabas.server.dispatch import Dispatch, MessageHandler
from barnabas.server.fetch_sessions import FetchSessions
from barnabas.server.follower_fetches import FollowerFetches
from barnabas.server.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from barnabas.server.handlers.fetch import Fetch
from barnabas.server.handlers.find_coordinator import FindCoordinator
from barnabas.server.handlers.produce import Produce
from barnabas.server.housekeeping import Housekeeping
from barnabas.server.listeners import Listeners
from barnabas.server.membership import find_cluster_id, join, register
from barnabas.server.metadata import BrokerImage, MetadataCache
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.read_replicas import read_replica_selector
from barnabas.server.replies import Work
from barnabas.server.settings import (
    advertised,
    check_protocols,
    cleaner_settings,
    intervals,
    limits,
)
from barnabas.server.topics import Topics
from barnabas.wire.apis import ApiKey
from barnabas.znodes.tree import Coordination

log = logging.getLogger("barnabas.broker")

# Kafka evicts a fetch session only when it was not used for this long.
SESSION_STALE_MS = 120_000


@dataclass(frozen=True, slots=True)
class Seams:
    """What differs between a machine and a simulation of one."""

    clock: Clock
    random: Random
    offload: Offload
    disk: Callable[[str], Disk]


@dataclass(slots=True)
class RunningBroker:
    """A broker that serves; `stop` ends it cleanly."""

    broker: Broker
    endpoints: list[Listener]
    failed: "asyncio.Future[BaseException]"
    _ending: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def stop(self) -> None:
        """Stop serving, then close the logs: the next start need not recover them."""
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
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def fail(error: BaseException) -> None:
        if not failed.done():
            failed.set_result(error)

    disks = [seams.disk(folder) for folder in config.log_dirs()]
    coordination = await join(disks[0], seams.offload, ending)
    logs = Logs(
        disks,
        clock=seams.clock,
        random=seams.random,
        producer_expiration_ms=config.int("producer.id.expiration.ms"),
    )
    cluster_id = await find_cluster_id(coordination, logs, seams.random)
    logs.acquire(BrokerId(config.broker_id()), cluster_id)
    ending.callback(logs.release)

    node = _Node(config, seams, coordination, logs, cluster_id, fail)
    ending.callback(node.timer.close)
    await node.load()
    # In the order of stopping, read from below: sockets, requests at hand, duties, the logs.
    ending.push_async_callback(_close_logs, node, failed)
    node.isr.start()
    ending.push_async_callback(node.isr.stop)
    node.housekeeping.start()
    ending.push_async_callback(node.housekeeping.stop)
    if config.bool("log.cleaner.enable"):
        node.cleaner.start()
    ending.push_async_callback(node.cleaner.stop)
    ending.push_async_callback(node.work.finished)
    ending.push_async_callback(node.listeners.close)
    endpoints = await node.serve()
    return RunningBroker(node.broker, endpoints, failed)


class _Node:
    """All parts of one broker, each made of those above it; none is started by being made."""

    def __init__(
        self,
        config: BrokerConfig,
        seams: Seams,
        coordination: Coordination,
        logs: Logs,
        cluster_id: str,
        fail: Callable[[BaseException], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        broker_id = BrokerId(config.broker_id())
        self._config = config
        self._seams = seams
        self._coordination = coordination
        self._fail = fail
        self.logs = logs
        self.timer = Timer(loop, fail)
        self._delayed = Delayed(self.timer)
        self._replicas = Replicas()
        self._metadata = MetadataCache(cluster_id, controller=broker_id)
        self._configs = Configs(
            coordination,
            broker_id,
            config,
            self._metadata,
            topic_changed=lambda name: self._topics.config_changed(name),
            broker_changed=self._broker_changed,
        )
        self.housekeeping = Housekeeping(
            logs,
            self._replicas,
            seams.clock,
            seams.offload,
            intervals(config),
            self._disk_failed,
            fail,
            producer_expiration_ms=lambda: self._configs.broker.int("producer.id.expiration.ms"),
        )
        self.cleaner = LogCleaner(
            logs,
            self._replicas,
            seams.clock,
            seams.offload,
            lambda: cleaner_settings(self._configs.broker),
            self.housekeeping.remove_later,
            self._disk_failed,
            fail,
        )
        self._topics = Topics(
            coordination,
            broker_id,
            seams.random,
            self._configs,
            logs,
            self._replicas,
            self._metadata,
            partition_gone=self._partition_gone,
            remove_later=self.housekeeping.remove_later,
            disk_failed=self._disk_failed,
        )
        self.broker = Broker(
            broker_id=broker_id,
            clock=seams.clock,
            metadata=self._metadata,
            replicas=self._replicas,
            logs=logs,
            topics=self._topics,
            configs=self._configs,
            producer_ids=ProducerIds(coordination, broker_id),
            disk_failed=self._disk_failed,
        )
        self.work = Work(fail)
        self.isr = IsrTracker(
            coordination,
            self._replicas,
            self._replicas.find,
            lambda: self._configs.broker.int("replica.lag.time.max.ms"),
            self._delayed.on_partition,
            fail,
        )
        self.listeners = Listeners(self._dispatch(loop), limits(config), self.timer, fail)

    def _dispatch(self, loop: asyncio.AbstractEventLoop) -> Dispatch:
        sessions = FetchSessions(
            self._config.int("max.incremental.fetch.session.cache.slots"),
            SESSION_STALE_MS,
            self._seams.random,
            lambda: loop.time() * 1000,
        )
        produce = Produce(
            self._replicas,
            self._seams.clock,
            self._seams.offload,
            self._delayed,
            self._disk_failed,
            self.work,
        )
        fetch = Fetch(
            self._replicas,
            self._metadata,
            sessions,
            self._delayed,
            self._seams.offload,
            self._config.int("fetch.max.bytes"),
            self._disk_failed,
            self.work,
            FollowerFetches(
                self._delayed,
                ReplicationThrottle(self.broker.broker_id, loop.time),
                self.isr.submit,
                lambda: loop.time() * 1000,
            ),
            read_replica_selector(
                self._config.optional_str("replica.selector.class"), self._metadata
            ),
        )
        return Dispatch(
            {ApiKey.PRODUCE: produce, ApiKey.FETCH: fetch},
            _message_handlers(self.broker, self._delayed),
            api_versions.unsupported,
            self.work,
        )

    async def load(self) -> None:
        """Read what was before: properties, logs, topics."""
        await self._configs.load()
        removals = self.logs.open_all(self._configs.topic, _progress)
        await self._topics.load()
        for removal in removals:
            self.housekeeping.remove_later(removal)

    async def serve(self) -> list[Listener]:
        """Open the listeners, tell the cluster, then let clients in."""
        config, broker_id = self._config, self.broker.broker_id
        endpoints = [
            await self.listeners.open(listener, accept=False) for listener in config.listeners()
        ]
        image = BrokerImage(
            broker_id, advertised(config, endpoints), config.optional_str("broker.rack")
        )
        self._metadata.brokers[broker_id] = image
        await register(self._coordination, image, self._seams.clock)
        await self.listeners.follow(limits(self._configs.broker))
        await self.listeners.accept()
        return endpoints

    async def _broker_changed(self) -> None:
        try:
            await self.listeners.follow(limits(self._configs.broker))
        except ConfigError as e:
            log.warning("connection limits stay as they were: %s", e)

    def _partition_gone(self, partition: TopicPartition) -> None:
        self._delayed.on_partition(partition)

    def _disk_failed(self, fault: DiskFault) -> None:
        """A folder failed: its partitions answer KAFKA_STORAGE_ERROR, all others go on."""
        if fault.folder in self.logs.offline:
            return
        log.error("log folder offline folder=%s cause=%s", fault.folder, fault.cause)
        try:
            lost = self.logs.take_offline(fault)
        except DiskFault:
            log.error("no log folder is left, the broker stops")
            self._fail(fault)
            return
        for partition in lost:
            self._replicas.take_offline(partition)
            self._metadata.take_offline(partition)
            self._partition_gone(partition)

    async def close_logs(self) -> None:
        offsets = self.housekeeping.high_watermarks()
        await self._seams.offload(lambda: self.logs.close(offsets))


async def _close_logs(node: _Node, failed: "asyncio.Future[BaseException]") -> None:
    # After a broken law nothing in memory is to be trusted: the next start recovers from disk.
    if not (failed.done() and isinstance(failed.result(), LawBroken)):
        await node.close_logs()


def _message_handlers(broker: Broker, delayed: Delayed) -> dict[ApiKey, MessageHandler]:
    return {
        ApiKey.API_VERSIONS: api_versions.handle,
        ApiKey.FIND_COORDINATOR: FindCoordinator(),
        ApiKey.METADATA: partial(metadata.handle, broker),
        ApiKey.LIST_OFFSETS: partial(list_offsets.handle, broker),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: partial(offset_for_leader_epoch.handle, broker),
        ApiKey.CREATE_TOPICS: partial(create_topics.handle, broker),
        ApiKey.CREATE_PARTITIONS: partial(create_partitions.handle, broker),
        ApiKey.DELETE_TOPICS: partial(delete_topics.handle, broker),
        ApiKey.DELETE_RECORDS: partial(delete_records.handle, broker, delayed.deletions),
        ApiKey.INIT_PRODUCER_ID: partial(init_producer_id.handle, broker),
        ApiKey.DESCRIBE_CONFIGS: partial(describe_configs.handle, broker),
        ApiKey.ALTER_CONFIGS: partial(alter_configs.handle, broker),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: partial(incremental_alter_configs.handle, broker),
        ApiKey.DESCRIBE_CLUSTER: partial(describe_cluster.handle, broker),
        ApiKey.DESCRIBE_LOG_DIRS: partial(describe_log_dirs.handle, broker),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: partial(describe_topic_partitions.handle, broker),
    }


def _progress(done: int, total: int) -> None:
    if done == total or done % 200 == 0:
        log.info("logs opened done=%d total=%d", done, total)
