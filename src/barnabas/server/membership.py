"""A broker's place in the coordination tree: its session, its cluster's id, its registration."""

import logging
from contextlib import AsyncExitStack

from barnabas.base.clock import Clock
from barnabas.base.disk import Disk
from barnabas.base.errors import ConfigError, DiskFault
from barnabas.base.offload import Offload
from barnabas.base.randomness import Random
from barnabas.log.logs import Logs
from barnabas.server.metadata import BrokerImage
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded import Tree
from barnabas.znodes.tree import Coordination, NodeExists

log = logging.getLogger("barnabas.membership")


async def join(disk: Disk, offload: Offload, ending: AsyncExitStack) -> Coordination:
    """A session with the tree that lies in `disk`, with all that brokers expect in it.

    Raises  ConfigError, if another process has the tree
    """
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
    coordination = tree.session()
    ending.push_async_callback(_leave, coordination)
    for path in paths.PERSISTENT_PATHS:
        if await coordination.exists(path) is None:
            await coordination.create(path, make_parents=True)
    return coordination


async def _leave(coordination: Coordination) -> None:
    """End the session; on a dead disk the next start does what is left of it."""
    try:
        await coordination.close()
    except DiskFault as fault:
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


async def register(coordination: Coordination, image: BrokerImage, clock: Clock) -> None:
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
