"""The registration of a broker in the coordination tree, its session, and the cluster's id."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final

from barnabas.base.clock import Clock
from barnabas.base.errors import (
    BrokerError,
    ConfigError,
    DiskFault,
    ErrorCode,
)
from barnabas.base.ids import BrokerId
from barnabas.base.offload import Offload
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.disk.disk import Disk
from barnabas.log.logs import Logs
from barnabas.server.cluster.feature_decisions import SUPPORTED
from barnabas.server.cluster.metadata_cache import BrokerImage
from barnabas.server.environment import Environment
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import Tree
from barnabas.znodes.tree import (
    Coordination,
    NodeExists,
    SessionState,
    WatchEvent,
    ZnodeError,
)

log = logging.getLogger("barnabas.membership")

# ZooKeeper looks for expired sessions only from time to time.
EXPIRY_MARGIN_S: Final = 5.0


async def join(
    config: BrokerConfig, environment: Environment, disk: Disk, ending: AsyncExitStack
) -> Coordination:
    """A session with ZooKeeper or, if none is configured, with the embedded tree on `disk`.

    On return the tree has all persistent paths.

    Raises  ConfigError, if another process has the tree, or ZooKeeper is not reached
    """
    address = config.optional_str("zookeeper.connect")
    if environment.coordination is not None:
        coordination = environment.coordination()
    elif address:
        coordination = await _connect(config, address)
    else:
        coordination = _open_own(disk, environment.offload, ending)
    ending.push_async_callback(leave, coordination)
    for path in paths.PERSISTENT_PATHS:
        if await coordination.exists(path) is None:
            with suppress(NodeExists):  # brokers start side by side
                await coordination.create(path, make_parents=True)
    return coordination


async def _connect(config: BrokerConfig, address: str) -> Coordination:
    # Here, since a broker that is alone need not wait for a client of ZooKeeper to be loaded.
    from barnabas.server.cluster.zookeeper_settings import zookeeper_security
    from barnabas.znodes.zookeeper import zookeeper_tree

    session_timeout_ms = config.int("zookeeper.session.timeout.ms")
    return await zookeeper_tree.connect(
        address,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=config.optional_int("zookeeper.connection.timeout.ms")
        or session_timeout_ms,
        security=zookeeper_security(config),
    )


def _open_own(disk: Disk, offload: Offload, ending: AsyncExitStack) -> Coordination:
    disk.make_dir("")
    # Two brokers must not write one tree; the logs have a lock of their own, as Kafka's have.
    lock = disk.lock("znodes.lock")
    if lock is None:
        raise ConfigError(
            f"log.dirs: {disk.log_dir} is in use by another broker; "
            "stop that broker or choose another log directory"
        )
    ending.callback(lock.close)
    tree = Tree.open(disk, offload)
    ending.push_async_callback(tree.close)
    return tree.session()


async def leave(coordination: Coordination) -> None:
    """End the session; on a dead disk the next start does the rest."""
    try:
        await coordination.close()
    except (DiskFault, ZnodeError) as fault:
        log.warning("the session was not closed: %s", fault)


async def find_cluster_id(coordination: Coordination, logs: Logs, random: Random) -> str:
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


async def find_broker_id(coordination: Coordination, config: BrokerConfig, logs: Logs) -> BrokerId:
    """The id that is configured, or the one the data has, or a new one above the reserved.

    Raises  ConfigError, if none is configured and none may be generated
    """
    if config.broker_id() >= 0:
        return BrokerId(config.broker_id())
    if (stored := logs.stored_broker_id()) is not None:
        return BrokerId(stored)
    if not config.bool("broker.id.generation.enable"):
        raise ConfigError("broker.id is not set, and broker.id.generation.enable is off")
    stat = await coordination.set(paths.BROKER_SEQUENCE_ID, b"")
    return BrokerId(stat.version + config.int("reserved.broker.max.id"))


class Registration:
    """This broker's znode below /brokers/ids, created again in every session.

    `epoch` is the znode's czxid: requests of a controller to an earlier epoch are stale.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        coordination: Coordination,
        clock: Clock,
        session_timeout_ms: int,
        protocols: Mapping[str, str],
    ) -> None:
        """`protocols` has the security protocol of each listener."""
        self._broker_id = broker_id
        self._coordination = coordination
        self._protocols = protocols
        self._clock = clock
        self._patience_s = session_timeout_ms / 1000 + EXPIRY_MARGIN_S
        self.epoch = -1
        self._first_epoch: int | None = None  # of this process
        self._least = -1  # requests to a lower epoch are stale
        # From the end of a session until the next registration is read.
        self._is_lost = False

    def check_epoch(self, epoch: int) -> None:
        """Refuse a request to an earlier registration of this broker; -1 matches every epoch.
        Without a session all requests are refused, since no epoch is ours.

        An epoch above ours is our own newest one: the controller may see a registration, and send
        a request, before we have read the epoch. It does not send that request twice.

        Raises  BrokerError(stale_broker_epoch)
        """
        has_none = self._is_lost and self._coordination.state is SessionState.EXPIRED
        if has_none or (epoch < self._least and (epoch != -1 or self._is_lost)):
            raise BrokerError(
                ErrorCode.stale_broker_epoch,
                f"broker epoch {epoch} is stale, the current one is {self.epoch}",
            )
        if self._is_lost:
            self._least = epoch

    def on_expired(self) -> None:
        """The session is over, and with it the registration."""
        self._is_lost = True
        self._least += 1  # whether we have read that epoch or only a request to it

    async def outlive(self) -> None:
        """Wait until our registration of an earlier session is gone. Raises ConfigError."""
        await self._outlive(paths.broker_path(self._broker_id))

    async def register(self, image: BrokerImage) -> None:
        """Create the znode in the session of now, and read its epoch.

        Raises  ConfigError, if a live broker has this id
        """
        path = paths.broker_path(self._broker_id)
        data = layout.encode_broker(self._node(image))
        while True:
            try:
                await self._coordination.create(path, data, ephemeral=True)
            except NodeExists:
                await self._outlive(path)
            stat = await self._coordination.exists(path)
            if stat is not None and stat.ephemeral_owner == self._coordination.session_id:
                self.epoch = self._least = stat.czxid
                if self._first_epoch is None:
                    self._first_epoch = self.epoch
                self._is_lost = False
                log.info("registered broker=%d epoch=%d", self._broker_id, self.epoch)
                return

    def _node(self, image: BrokerImage) -> layout.BrokerRegistration:
        return layout.BrokerRegistration(
            endpoints=tuple(
                layout.Endpoint(name, host, port, self._protocols[name])
                for name, (host, port) in image.endpoints.items()
            ),
            timestamp_ms=self._clock.now_ms(),
            rack=image.rack,
            features=SUPPORTED,
            first_epoch=self._first_epoch,
        )

    async def _outlive(self, path: str) -> None:
        """Wait until the znode of an earlier session is gone: ours, if we were killed a moment ago.

        Raises  ConfigError, if it outlives the session timeout
        """
        changed = asyncio.Event()

        def on_change(_: WatchEvent) -> None:
            changed.set()

        stat = await self._coordination.exists(path, on_change)
        if stat is None or stat.ephemeral_owner == self._coordination.session_id:
            return
        log.warning("%s belongs to another session: waiting for it to expire", path)
        try:
            async with asyncio.timeout(self._patience_s):
                await changed.wait()
        except TimeoutError:
            raise ConfigError(
                f"broker.id: a running broker has the id {path.rpartition('/')[2]}; "
                "each broker of a cluster needs its own"
            ) from None
