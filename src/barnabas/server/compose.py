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
from barnabas.base.ids import BrokerId, Offset, TopicPartition
from barnabas.base.listeners import Listener
from barnabas.base.offload import Offload, ThreadOffload
from barnabas.base.randomness import Random
from barnabas.log.logs import Logs
from barnabas.purgatory.operations import Purgatory
from barnabas.purgatory.timer import Timer
from barnabas.replication.replicas import Replicas
from barnabas.server.broker import Broker
from barnabas.server.cleaning import CleanerSettings, LogCleaner
from barnabas.server.configs import Configs
from barnabas.server.dispatch import Dispatch, MessageHandler
from barnabas.server.fetch_sessions import FetchSessions
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
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from barnabas.server.handlers.fetch import DelayedFetch, Fetch
from barnabas.server.handlers.produce import Produce
from barnabas.server.housekeeping import Housekeeping, Intervals
from barnabas.server.listeners import Limits, Listeners
from barnabas.server.metadata import BrokerImage, MetadataCache
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.replies import Work
from barnabas.server.topics import Topics
from barnabas.wire.apis import ApiKey
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded import Tree
from barnabas.znodes.tree import Coordination, NodeExists

log = logging.getLogger("barnabas.broker")

# Kafka evicts a fetch session only when it was not used for this long.
SESSION_STALE_MS = 120_000
# Segments that rolled are brought onto the medium within this time.
FLUSH_CHECK_MS = 1_000


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
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[BaseException] = loop.create_future()
    broker_id = BrokerId(config.broker_id())
    _check_protocols(config)
    disks = [seams.disk(folder) for folder in config.log_dirs()]
    logs = Logs(
        disks,
        clock=seams.clock,
        random=seams.random,
        producer_expiration_ms=config.int("producer.id.expiration.ms"),
    )
    # Two brokers must not write one tree; the logs have a lock of their own, as Kafka's have.
    lock = disks[0].lock("znodes.lock")
    if lock is None:
        raise ConfigError(
            f"log.dirs: {disks[0].folder} is in use by another broker; "
            "stop that one or choose another folder"
        )
    ending.callback(lock.close)
    tree = Tree.open(disks[0], seams.offload)
    ending.push_async_callback(tree.close)
    coordination = tree.session()
    ending.push_async_callback(_leave, coordination)
    for path in paths.PERSISTENT_PATHS:
        if await coordination.exists(path) is None:
            await coordination.create(path, make_parents=True)
    cluster_id = await _cluster_id(coordination, logs, seams.random)
    logs.acquire(broker_id, cluster_id)
    ending.callback(logs.release)

    cache = MetadataCache(cluster_id, controller=broker_id)
    replicas = Replicas()
    timer = Timer(loop)
    ending.callback(timer.close)
    fetch_purgatory: Purgatory[DelayedFetch] = Purgatory(timer)

    def fail(error: BaseException) -> None:
        if not failed.done():
            failed.set_result(error)

    def disk_failed(fault: DiskFault) -> None:
        _take_offline(fault, logs, replicas, cache, fetch_purgatory, fail)

    configs = Configs(
        coordination,
        broker_id,
        config,
        cache,
        topic_changed=lambda name: topics.config_changed(name),
    )
    await configs.load()
    housekeeping = Housekeeping(
        logs,
        replicas,
        seams.clock,
        seams.offload,
        _intervals(config),
        disk_failed,
        producer_expiration_ms=lambda: configs.broker.int("producer.id.expiration.ms"),
    )
    removals = logs.open_all(configs.topic, _progress)

    def partition_gone(partition: TopicPartition) -> None:
        for operation in fetch_purgatory.cancel_for(partition):
            operation.force_complete()

    topics = Topics(
        coordination,
        broker_id,
        seams.random,
        configs,
        logs,
        replicas,
        cache,
        partition_gone=partition_gone,
        remove_later=housekeeping.remove_later,
        disk_failed=disk_failed,
    )
    await topics.load()
    for removal in removals:
        housekeeping.remove_later(removal)

    broker = Broker(
        broker_id=broker_id,
        clock=seams.clock,
        metadata=cache,
        replicas=replicas,
        logs=logs,
        topics=topics,
        configs=configs,
        producer_ids=ProducerIds(coordination, broker_id),
        disk_failed=disk_failed,
    )
    sessions = FetchSessions(
        config.int("max.incremental.fetch.session.cache.slots"),
        SESSION_STALE_MS,
        seams.random,
        lambda: loop.time() * 1000,
    )
    work = Work()
    dispatch = Dispatch(
        {
            ApiKey.PRODUCE: Produce(
                replicas,
                seams.clock,
                seams.offload,
                fetch_purgatory.check_and_complete,
                disk_failed,
                work,
            ),
            ApiKey.FETCH: Fetch(
                replicas,
                cache,
                sessions,
                fetch_purgatory,
                seams.offload,
                config.int("fetch.max.bytes"),
                disk_failed,
                work,
            ),
        },
        _message_handlers(broker),
        api_versions.unsupported,
        work,
    )
    listeners = Listeners(dispatch, _limits(config), timer, fail)

    def high_watermarks() -> dict[TopicPartition, Offset]:
        return housekeeping.high_watermarks()

    # In the order of stopping, read from below: sockets, requests at hand, duties, the logs.
    ending.push_async_callback(_close_logs, logs, high_watermarks, seams.offload, failed)
    housekeeping.start()
    ending.push_async_callback(housekeeping.stop)
    cleaner = LogCleaner(
        logs,
        replicas,
        seams.clock,
        seams.offload,
        lambda: _cleaner_settings(configs.broker),
        housekeeping.remove_later,
        disk_failed,
    )
    ending.push_async_callback(cleaner.stop)
    if config.bool("log.cleaner.enable"):
        cleaner.start()
    ending.push_async_callback(work.finished)
    ending.push_async_callback(listeners.close)
    endpoints = [await listeners.open(listener, accept=False) for listener in config.listeners()]
    cache.brokers[broker_id] = BrokerImage(
        broker_id, _advertised(config, endpoints), config.optional_str("broker.rack")
    )
    await _register(coordination, cache.brokers[broker_id], seams.clock)
    await listeners.accept()
    return RunningBroker(broker, endpoints, failed)


def _message_handlers(broker: Broker) -> dict[ApiKey, MessageHandler]:
    return {
        ApiKey.API_VERSIONS: api_versions.handle,
        ApiKey.FIND_COORDINATOR: find_coordinator.handle,
        ApiKey.METADATA: partial(metadata.handle, broker),
        ApiKey.LIST_OFFSETS: partial(list_offsets.handle, broker),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: partial(offset_for_leader_epoch.handle, broker),
        ApiKey.CREATE_TOPICS: partial(create_topics.handle, broker),
        ApiKey.CREATE_PARTITIONS: partial(create_partitions.handle, broker),
        ApiKey.DELETE_TOPICS: partial(delete_topics.handle, broker),
        ApiKey.DELETE_RECORDS: partial(delete_records.handle, broker),
        ApiKey.INIT_PRODUCER_ID: partial(init_producer_id.handle, broker),
        ApiKey.DESCRIBE_CONFIGS: partial(describe_configs.handle, broker),
        ApiKey.ALTER_CONFIGS: partial(alter_configs.handle, broker),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: partial(incremental_alter_configs.handle, broker),
        ApiKey.DESCRIBE_CLUSTER: partial(describe_cluster.handle, broker),
        ApiKey.DESCRIBE_LOG_DIRS: partial(describe_log_dirs.handle, broker),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: partial(describe_topic_partitions.handle, broker),
    }


def _check_protocols(config: BrokerConfig) -> None:
    for listener in config.listeners():
        if listener.protocol != "PLAINTEXT":
            raise ConfigError(
                f"listeners: {listener} asks for {listener.protocol}; only PLAINTEXT is served yet"
            )


async def _cluster_id(coordination: Coordination, logs: Logs, random: Random) -> str:
    """The cluster's id: the tree's, or that of the data if the tree is new, or a new one."""
    wanted = logs.stored_cluster_id() or paths.uuid_text(random.uuid())
    try:
        await coordination.create(
            paths.CLUSTER_ID, layout.encode_cluster_id(wanted), make_parents=True
        )
    except NodeExists:
        data, _ = await coordination.get(paths.CLUSTER_ID)
        return layout.decode_cluster_id(data)
    return wanted


async def _register(coordination: Coordination, image: BrokerImage, clock: Clock) -> None:
    registration = layout.BrokerRegistration(
        endpoints=tuple(
            layout.Endpoint(name, host, port) for name, (host, port) in image.endpoints.items()
        ),
        timestamp_ms=clock.now_ms(),
        rack=image.rack,
    )
    await coordination.create(
        paths.broker_path(image.broker_id), layout.encode_broker(registration), ephemeral=True
    )


def _advertised(config: BrokerConfig, opened: list[Listener]) -> dict[str, tuple[str, int]]:
    """What clients are told: as configured, with the port that was got where 0 was asked for."""
    ports = {listener.name: listener.port for listener in opened}
    return {
        listener.name: (listener.host or "localhost", listener.port or ports[listener.name])
        for listener in config.advertised()
    }


def _limits(config: BrokerConfig) -> Limits:
    return Limits(
        socket_request_max_bytes=config.int("socket.request.max.bytes"),
        connections_max_idle_ms=config.long("connections.max.idle.ms"),
        max_connections=config.int("max.connections"),
        max_connections_per_ip=config.int("max.connections.per.ip"),
        per_ip_overrides=config.max_connections_per_ip_overrides(),
        socket_listen_backlog_size=config.int("socket.listen.backlog.size"),
    )


def _cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        threads=config.int("log.cleaner.threads"),
        dedupe_buffer_size=config.long("log.cleaner.dedupe.buffer.size"),
        io_buffer_size=config.int("log.cleaner.io.buffer.size"),
        io_buffer_load_factor=config.double("log.cleaner.io.buffer.load.factor"),
        io_max_bytes_per_second=config.double("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=config.long("log.cleaner.backoff.ms"),
    )


def _intervals(config: BrokerConfig) -> Intervals:
    return Intervals(
        flush_ms=min(config.long("log.flush.scheduler.interval.ms"), FLUSH_CHECK_MS),
        retention_ms=config.long("log.retention.check.interval.ms"),
        checkpoint_ms=max(1, config.int("log.flush.offset.checkpoint.interval.ms")),
        producer_expiration_ms=config.int("producer.id.expiration.check.interval.ms"),
    )


async def _leave(coordination: Coordination) -> None:
    """End the session; on a dead disk the next start does what is left of it."""
    try:
        await coordination.close()
    except DiskFault as fault:
        log.warning("the session was not closed: %s", fault)


def _progress(done: int, total: int) -> None:
    if done == total or done % 200 == 0:
        log.info("logs opened done=%d total=%d", done, total)


def _take_offline(
    fault: DiskFault,
    logs: Logs,
    replicas: Replicas,
    cache: MetadataCache,
    fetches: Purgatory[DelayedFetch],
    fail: Callable[[BaseException], None],
) -> None:
    """A folder failed: its partitions answer KAFKA_STORAGE_ERROR, all others go on."""
    if fault.folder in logs.offline:
        return
    log.error("log folder offline folder=%s cause=%s", fault.folder, fault.cause)
    try:
        lost = logs.take_offline(fault)
    except DiskFault:
        log.error("no log folder is left, the broker stops")
        fail(fault)
        return
    for partition in lost:
        replicas.take_offline(partition)
        cache.take_offline(partition)
        for operation in fetches.cancel_for(partition):
            operation.force_complete()


async def _close_logs(
    logs: Logs,
    high_watermarks: Callable[[], dict[TopicPartition, Offset]],
    offload: Offload,
    failed: "asyncio.Future[BaseException]",
) -> None:
    # After a broken law nothing in memory is to be trusted: the next start recovers from disk.
    if failed.done() and isinstance(failed.result(), LawBroken):
        return
    offsets = high_watermarks()
    await offload(lambda: logs.close(offsets))
