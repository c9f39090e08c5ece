"""A broker's place in the coordination tree: its session, its cluster's id, its registration."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Final

from barnabas.base.clock import Clock
from barnabas.base.errors import (
    BarnabasError,
    BrokerError,
    ConfigError,
    DiskFault,
    ErrorCode,
    LawBroken,
)
from barnabas.base.ids import BrokerId
from barnabas.base.offload import Offload
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.disk.disk import Disk
from barnabas.log.logs import Logs
from barnabas.server.cluster.metadata_cache import BrokerImage
from barnabas.server.environment import Seams
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import Tree
from barnabas.znodes.tree import (
    Coordination,
    NodeExists,
    SessionExpired,
    SessionState,
    WatchEvent,
    ZnodeError,
)

log = logging.getLogger("barnabas.membership")

# How long to wait before what ZooKeeper did not answer is asked again.
RETRY_S: Final = 0.2
# ZooKeeper looks for expired sessions only from time to time.
EXPIRY_MARGIN_S: Final = 5.0


async def join(
    config: BrokerConfig, seams: Seams, disk: Disk, ending: AsyncExitStack
) -> Coordination:
    """A session with ZooKeeper or, if none is configured, with the tree that lies in `disk`.

    All that brokers expect in the tree is there when this returns.

    Raises  ConfigError, if another process has the tree, or ZooKeeper is not reached
    """
    address = config.optional_str("zookeeper.connect")
    if seams.coordination is not None:
        coordination = seams.coordination()
    elif address:
        coordination = await _connect(config, address)
    else:
        coordination = _open_own(disk, seams.offload, ending)
    ending.push_async_callback(_leave, coordination)
    for path in paths.PERSISTENT_PATHS:
        if await coordination.exists(path) is None:
            with suppress(NodeExists):  # brokers start side by side
                await coordination.create(path, make_parents=True)
    return coordination


async def _connect(config: BrokerConfig, address: str) -> Coordination:
    # Here, since a broker that is alone need not wait for a client of ZooKeeper to be loaded.
    from barnabas.znodes.zookeeper import zookeeper_tree

    session_timeout_ms = config.int("zookeeper.session.timeout.ms")
    return await zookeeper_tree.connect(
        address,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=config.optional_int("zookeeper.connection.timeout.ms")
        or session_timeout_ms,
    )


def _open_own(disk: Disk, offload: Offload, ending: AsyncExitStack) -> Coordination:
    disk.make_folder("")
    # Two brokers must not write one tree; the logs have a lock of their own, as Kafka's have.
    lock = disk.lock("znodes.lock")
    if lock is None:
        raise ConfigError(
            f"log.dirs: {disk.folder} is in use by another broker; "
            "stop that one or choose another folder"
        )
    ending.callback(lock.close)
    tree = Tree.open(disk, offload)
    ending.push_async_callback(tree.close)
    return tree.session()


async def _leave(coordination: Coordination) -> None:
    """End the session; on a dead disk the next start does what is left of it."""
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
    """This broker's node below /brokers/ids, made anew whenever its session ends.

    `epoch` is the node's czxid: what the controller says to an earlier epoch is not for us.
    """

    def __init__(
        self,
        coordination: Coordination,
        clock: Clock,
        session_timeout_ms: int,
        lost: Callable[[], None],
        renewed: Callable[[], Awaitable[None]],
    ) -> None:
        self._coordination = coordination
        self._clock = clock
        self._patience_s = session_timeout_ms / 1000 + EXPIRY_MARGIN_S
        self._lost = lost
        self._renewed = renewed
        self._image: BrokerImage | None = None
        self._renewing: asyncio.Task[None] | None = None
        self.epoch = -1
        self._least = -1  # what is said to a lower epoch is not for us
        # From the end of a session until the next registration is read.
        self._is_lost = False
        self._is_leaving = False

    async def enter(self, image: BrokerImage) -> None:
        """Register, and from now on again in every session.

        Raises  ConfigError, if a broker that lives has this id
        """
        self._image = image
        await self._register()
        self._coordination.listen(self._on_state)
        if self._coordination.state is SessionState.EXPIRED:  # before anybody listened
            self._on_state(SessionState.EXPIRED)

    def check_epoch(self, epoch: int) -> None:
        """Refuse what was meant for the broker before its last registration; -1 asks nothing.
        While there is no session everything is refused, as no epoch is ours then.

        An epoch above ours is our own newest: the controller may see a registration, and speak,
        before we have read what epoch it gave us. It does not say it twice.

        Raises  BrokerError(stale_broker_epoch)
        """
        has_none = self._is_lost and self._coordination.state is SessionState.EXPIRED
        if has_none or (epoch < self._least and (epoch != -1 or self._is_lost)):
            raise BrokerError(
                ErrorCode.stale_broker_epoch, f"broker epoch {epoch} is past, it is {self.epoch}"
            )
        if self._is_lost:
            self._least = epoch

    async def leave(self) -> None:
        """Register no more; what is registered goes with the session."""
        self._is_leaving = True
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    async def _register(self) -> None:
        assert self._image is not None
        path = paths.broker_path(self._image.broker_id)
        data = layout.encode_broker(self._node(self._image))
        while True:
            try:
                await self._coordination.create(path, data, ephemeral=True)
            except NodeExists:
                await self._outlive(path)
            stat = await self._coordination.exists(path)
            if stat is not None and stat.ephemeral_owner == self._coordination.session_id:
                self.epoch = self._least = stat.czxid
                self._is_lost = False
                log.info("registered broker=%d epoch=%d", self._image.broker_id, self.epoch)
                return

    def _node(self, image: BrokerImage) -> layout.BrokerRegistration:
        return layout.BrokerRegistration(
            endpoints=tuple(
                layout.Endpoint(name, host, port) for name, (host, port) in image.endpoints.items()
            ),
            timestamp_ms=self._clock.now_ms(),
            rack=image.rack,
        )

    async def _outlive(self, path: str) -> None:
        """Wait until the node of an earlier session is gone: ours, if we were killed a moment ago.

        Raises  ConfigError, if it stays for longer than a session lives without its broker
        """
        changed = asyncio.Event()

        def on_change(_: WatchEvent) -> None:
            changed.set()

        stat = await self._coordination.exists(path, on_change)
        if stat is None or stat.ephemeral_owner == self._coordination.session_id:
            return
        log.warning("%s is of another session: waiting for it to expire", path)
        try:
            async with asyncio.timeout(self._patience_s):
                await changed.wait()
        except TimeoutError:
            raise ConfigError(
                f"broker.id: a running broker has the id {path.rpartition('/')[2]}; "
                "each broker of a cluster needs its own"
            ) from None

    # -- the session ---------------------------------------------------------

    def _on_state(self, state: SessionState) -> None:
        if self._is_leaving:
            return
        if state is SessionState.EXPIRED:
            log.warning("session expired, all that rested on it is given up")
            self._is_lost = True
            self._least += 1  # whether we have read that epoch or only heard of it
            self._lost()
            if self._renewing is not None:
                self._renewing.cancel()
            self._renewing = asyncio.ensure_future(self._renew())
        elif state is SessionState.SUSPENDED:
            log.warning("coordination does not answer, going on with what is known")

    async def _renew(self) -> None:
        """Begin a new session and register in it, however long that takes."""
        while True:
            try:
                await self._coordination.renew()
                await self._register()
                await self._renewed()
                return
            except SessionExpired:
                return  # again: the listener has heard of it, too
            except LawBroken:
                raise
            except BarnabasError as e:
                log.warning("not registered yet: %s", e)
                await asyncio.sleep(RETRY_S)
