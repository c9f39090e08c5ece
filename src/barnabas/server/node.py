"""Joins the parts of one broker, bottom up; the only place that knows them all."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.base.errors import BarnabasError, ConfigError, DiskFault, LawBroken, PeerGone
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.client.connection import AsyncConnection
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.controller.context import LiveBroker
from barnabas.controller.controller import Controller
from barnabas.controller.events import SessionExpired, SessionRenewed, UncleanAllowed
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.log.logs import Logs
from barnabas.purgatory.delayed_operation import Purgatory
from barnabas.purgatory.timer import Timer
from barnabas.replication.follower.fetcher import FetcherPorts, ReplicaFetchers
from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.replication.replicas import Replicas
from barnabas.replication.throttle import ReplicationThrottle
from barnabas.server.broker import Broker
from barnabas.server.cluster.config_admin import Configs
from barnabas.server.cluster.config_changes import ConfigChanges
from barnabas.server.cluster.controlled_shutdown import hand_over
from barnabas.server.cluster.membership import Registration
from barnabas.server.cluster.metadata_cache import BrokerImage, MetadataCache
from barnabas.server.cluster.partition_roles import Partitions
from barnabas.server.cluster.producer_ids import ProducerIds
from barnabas.server.cluster.startup_sync import Briefing
from barnabas.server.cluster.topic_admin import MetadataAwaited, Topics
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.environment import Seams
from barnabas.server.fetching.fetch_collector import FetchCollector
from barnabas.server.fetching.fetch_sessions import FetchSessions
from barnabas.server.fetching.follower_fetches import FollowerFetches
from barnabas.server.fetching.replica_selector import read_replica_selector
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.server.handlers import api_versions, controlled_shutdown
from barnabas.server.handlers.fetch import Fetch
from barnabas.server.handlers.produce import Produce
from barnabas.server.maintenance.housekeeping import Housekeeping
from barnabas.server.maintenance.log_cleaner import LogCleaner
from barnabas.server.metrics.metric_values import Observed
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network.socket_server import Listeners
from barnabas.server.requests import api_handlers
from barnabas.server.requests.dispatch import Call, Dispatch
from barnabas.server.requests.replies import Work
from barnabas.server.settings import (
    advertised,
    cleaner_settings,
    controller_settings,
    fetcher_settings,
    intervals,
    limits,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.wire.schema import Message
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import ConnectionLoss, Coordination, ZnodeError

if TYPE_CHECKING:
    from barnabas.server.groups.group_imports import GroupParts

log = logging.getLogger("barnabas.broker")

# Kafka evicts a fetch session only when it was not used for this long.
SESSION_STALE_MS: Final = 120_000
# How long a broker that stops works on the requests that it has.
FINISHED_WITHIN_S: Final = 5.0
# How long a broker that starts waits for a controller before it lets itself be used without one.
TOLD_WITHIN_S: Final = 30.0


class Node:
    """All parts of one broker, each made of those above it; none is started by being made."""

    def __init__(
        self,
        config: BrokerConfig,
        seams: Seams,
        coordination: Coordination,
        logs: Logs,
        broker_id: BrokerId,
        cluster_id: str,
        fail: Callable[[BaseException], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._broker_id = broker_id
        self._config = config
        self._seams = seams
        self._coordination = coordination
        self._fail = fail
        self._now_ms = lambda: loop.time() * 1000
        self.logs = logs
        self.timer = Timer(loop, fail)
        self.work = Work(fail)
        self._delayed = Delayed(self.timer)
        self._metadata = MetadataCache(cluster_id)
        self._replicas = Replicas(self._metadata.has_partition)
        self._briefing = Briefing(broker_id, coordination, self._metadata, self._replicas)
        self._configs = Configs(
            coordination,
            broker_id,
            config,
            self._metadata,
            topic_changed=self._topic_changed,
            broker_changed=self._broker_changed,
        )
        self.config_changes = ConfigChanges(coordination, self._configs.refresh)
        self.housekeeping = Housekeeping(
            logs,
            self._replicas,
            self._delayed,
            seams.clock,
            seams.offload,
            intervals(config),
            self._disk_failed,
            fail,
            producer_expiration_ms=lambda: self._configs.broker.int("producer.id.expiration.ms"),
            expire_offsets=lambda: self.groups.expire(),
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
        self.isr = IsrTracker(
            coordination,
            self._replicas,
            self._replicas.find,
            lambda: self._configs.broker.int("replica.lag.time.max.ms"),
            self._delayed.on_partition,
            fail,
            seams.safeguards,
        )
        self._registration = Registration(
            coordination,
            seams.clock,
            config.int("zookeeper.session.timeout.ms"),
            lost=self._session_lost,
            renewed=self._session_renewed,
        )
        self._leader_throttle = ReplicationThrottle(broker_id, loop.time)
        self._follower_throttle = ReplicationThrottle(broker_id, loop.time)
        self.fetchers = ReplicaFetchers(
            FetcherPorts(
                broker_id,
                logs,
                seams.clock,
                seams.offload,
                self._follower_throttle,
                lambda: fetcher_settings(self._configs.broker),
                lambda: self._registration.epoch,
                self.housekeeping.remove_later,
                lambda follower: self._delayed.on_high_watermark(follower.topic_partition),
                self._disk_failed,
                fail,
                seams.safeguards,
            )
        )
        self._partitions = Partitions(
            broker_id,
            logs,
            self._replicas,
            self._configs,
            self.fetchers,
            self._now_ms,
            max_lag_ms=lambda: self._configs.broker.int("replica.lag.time.max.ms"),
            is_alive=lambda broker: broker in self._metadata.brokers,
            roles_changed=self._roles_changed,
            topic_known=self._metadata.know_id,
            remove_later=self.housekeeping.remove_later,
            disk_failed=self._disk_failed,
            offload=seams.offload,
            safeguards=seams.safeguards,
        )
        self._awaited: Purgatory[MetadataAwaited] = Purgatory(self.timer)
        self._topics = Topics(
            coordination, seams.random, self._configs, logs, self._metadata, self._awaited
        )
        self.groups = self._group_coordinator()
        self.controller = Controller(
            broker_id,
            coordination,
            clock=seams.clock,
            random=seams.random,
            settings=lambda: controller_settings(self._configs.broker),
            connect=self._connect,
            local=self._tell_own,
            on_fatal=fail,
            inter_broker_listener=config.inter_broker_listener_name(),
        )
        self.broker = Broker(
            broker_id=broker_id,
            clock=seams.clock,
            registration=self._registration,
            metadata=self._metadata,
            replicas=self._replicas,
            partitions=self._partitions,
            logs=logs,
            topics=self._topics,
            configs=self._configs,
            producer_ids=ProducerIds(coordination, broker_id),
            controller=self.controller,
            groups=self.groups,
            disk_failed=self._disk_failed,
        )
        self._statistics = RequestStatistics(seams.stopwatch)
        self._sessions = FetchSessions(
            config.int("max.incremental.fetch.session.cache.slots"),
            SESSION_STALE_MS,
            seams.random,
            self._now_ms,
        )
        dispatch = self._dispatch()
        self.listeners = Listeners(
            dispatch if seams.intercept is None else seams.intercept(dispatch),
            limits(config),
            self.timer,
            fail,
            self._statistics,
        )

    def _group_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self._replicas,
            self._metadata,
            self._configs,
            self._topics,
            self._delayed,
            self.timer,
            self._seams.clock,
            self._seams.offload,
            self._group_parts,
            self._disk_failed,
            self._fail,
        )

    def _group_parts(self) -> "GroupParts":
        from barnabas.server.groups.group_imports import GroupParts  # not before: see there

        return GroupParts(self._config, self._seams.random, self._metadata)

    def _dispatch(self) -> Dispatch:
        produce = Produce(
            self._replicas,
            self._seams.clock,
            self._seams.offload,
            self._delayed,
            self._disk_failed,
            self.work,
            self._statistics.by_api[ApiKey.PRODUCE].errors,
        )
        collector = FetchCollector(
            self._replicas,
            self._metadata,
            self._delayed,
            FollowerFetches(self._delayed, self._leader_throttle, self.isr.submit, self._now_ms),
            self._config.int("fetch.max.bytes"),
            self._disk_failed,
            read_replica_selector(
                self._config.optional_str("replica.selector.class"), self._metadata
            ),
        )
        fetch = Fetch(
            self._replicas,
            self._metadata,
            self._sessions,
            self._delayed,
            collector,
            self._seams.offload,
            self._disk_failed,
            self.work,
            self._statistics.by_api[ApiKey.FETCH].errors,
        )
        return Dispatch(
            {ApiKey.PRODUCE: produce, ApiKey.FETCH: fetch},
            api_handlers.message_handlers(self.broker, self._delayed)
            | {key: partial(self._controlled, key) for key in api_handlers.CONTROL},
            api_versions.unsupported,
            self.work,
            self._statistics,
        )

    def observed(self) -> Observed:
        """The parts that there is something to tell of."""
        delayed = self._delayed
        return Observed(
            self._replicas,
            self.isr,
            self.fetchers,
            self.controller,
            {
                "produce": delayed.produces,
                "consumer_fetch": delayed.consumers,
                "follower_fetch": delayed.followers,
                "delete_records": delayed.deletions,
                "create_topics": self._awaited,
            },
            self._statistics,
            self.listeners,
            self._sessions,
            self.groups,
            self.logs,
            self._metadata,
        )

    # -- beginning -----------------------------------------------------------

    async def load(self) -> None:
        """Read what was before: properties, logs."""
        await self.config_changes.start()
        await self._configs.load()
        for removal in self.logs.open_all(self._configs.topic, _progress):
            self.housekeeping.remove_later(removal)

    async def serve(self) -> list[Listener]:
        """Open the listeners, tell the cluster, and return when the controller has answered."""
        config = self._config
        endpoints = [
            await self.listeners.open(listener, accept=False) for listener in config.listeners()
        ]
        await self.listeners.follow(limits(self._configs.broker))
        image = BrokerImage(
            self._broker_id, advertised(config, endpoints), config.optional_str("broker.rack")
        )
        await self._registration.enter(image)
        self.controller.start()
        await self.listeners.accept()
        try:
            async with asyncio.timeout(TOLD_WITHIN_S):
                await self._briefing.complete()
        except TimeoutError:
            log.warning("no controller has told this broker what to lead; going on without")
        else:
            self._partitions.remove_strays(self._metadata)
        return endpoints

    # -- ending --------------------------------------------------------------

    async def hand_over(self) -> None:
        """Let others lead what this broker leads, while it still serves."""
        self._partitions.is_stopping = True
        await hand_over(
            self._broker_id,
            lambda: self._registration.epoch,
            self._configs.broker,
            self._metadata,
            self._ask_own,
            self._briefing.told,
        )

    async def leave(self) -> None:
        """Control nothing any more, and stay registered no longer than the session lasts."""
        try:
            await self.controller.stop()
        except (DiskFault, ZnodeError) as e:
            log.warning("not resigned, the session's end does it: %s", e)
        await self._registration.leave()

    async def finish(self) -> None:
        """Finish the requests at hand; what waits for other replicas, who cannot reach this broker
        any more, waits no longer."""
        finishing = asyncio.ensure_future(self.work.finished())
        await asyncio.wait([finishing], timeout=FINISHED_WITHIN_S)
        self._partitions.stop_leading()
        await finishing

    async def close_logs(self) -> None:
        offsets, epoch = self._replicas.high_watermarks(), self._registration.epoch
        await self._seams.offload(lambda: self.logs.close(offsets, epoch))

    # -- the controller's messages -------------------------------------------

    async def _controlled(self, key: ApiKey, request: Message, call: Call | None) -> Message:
        answer: Message = await api_handlers.CONTROL[key](self.broker, request, call)
        self._briefing.told.set()
        return answer

    async def _tell_own(self, request: ControlRequest) -> Message:
        """Carry out what the controller in this very broker says."""
        try:
            return await self._controlled(request.key, request.message, None)
        except LawBroken:
            raise
        except BarnabasError as e:  # then it is asked again, as another broker would be
            raise PeerGone(f"this broker: {e}") from e

    async def _connect(self, broker: LiveBroker) -> AsyncConnection:
        listener = self._config.inter_broker_listener_name()
        endpoints = {each.listener: each for each in broker.registration.endpoints}
        if listener not in endpoints:
            raise PeerGone(f"broker {broker.broker_id} has no listener {listener}")
        return await AsyncConnection.connect(
            endpoints[listener].host,
            endpoints[listener].port,
            client_id=str(self._broker_id),
            timeout_s=self._config.int("controller.socket.timeout.ms") / 1000,
        )

    async def _ask_own(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        return await controlled_shutdown.handle(self.broker, request, None)

    # -- what changes --------------------------------------------------------

    def _roles_changed(self, partitions: Sequence[TopicPartition]) -> None:
        self._delayed.on_partitions(partitions)
        for partition in partitions:
            if partition.topic == OFFSETS_TOPIC:
                self.groups.on_role(partition)

    def _session_lost(self) -> None:
        led = self._partitions.stop_leading()
        log.warning("leads nothing until the controller speaks again stopped=%d", led)
        self.controller.put(SessionExpired())

    async def _session_renewed(self) -> None:
        self.controller.put(SessionRenewed())
        await self.config_changes.start()
        await self._configs.reload()

    async def _broker_changed(self) -> None:
        config = self._configs.broker
        try:
            await self.listeners.follow(limits(config))
        except ConfigError as e:
            log.warning("connection limits stay as they were: %s", e)
        self._leader_throttle.bytes_per_second = config.long("leader.replication.throttled.rate")
        self._follower_throttle.bytes_per_second = config.long(
            "follower.replication.throttled.rate"
        )
        self.fetchers.resize()

    def _topic_changed(self, name: str) -> None:
        config = self._configs.topic(name)
        image = self._metadata.topic(name)
        self._partitions.config_changed(name, image.partitions if image is not None else ())
        self._leader_throttle.set_topic(name, config.leader_replication_throttled_replicas)
        self._follower_throttle.set_topic(name, config.follower_replication_throttled_replicas)
        if config.unclean_leader_election_enable and self.controller.is_active:
            self.controller.put(UncleanAllowed(name))

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
            self.fetchers.stop(partition)
            self._replicas.take_offline(partition)
            self._metadata.take_offline(partition, self._broker_id)
        self._roles_changed(lost)
        self.housekeeping.soon(self._tell_of_failed_folder)

    async def _tell_of_failed_folder(self) -> bool:
        """Let the controller ask which replicas are gone with the folder; False: not told yet."""
        try:
            await self._coordination.create(
                paths.LOG_DIR_EVENT, layout.encode_log_dir_event(self._broker_id), sequential=True
            )
        except (ZnodeError, DiskFault) as e:
            log.warning("the controller does not know of the failed folder: %s", e)
            # In a new session it asks for all replicas anyway.
            return not isinstance(e, ConnectionLoss)
        return True


def _progress(done: int, total: int) -> None:
    if done == total or done % 200 == 0:
        log.info("logs opened done=%d total=%d", done, total)
