"""The steps of starting and stopping a broker; compose.py puts them in order."""

import asyncio
import logging
from functools import partial
from typing import Final

from barnabas.base.errors import DiskFault
from barnabas.config.listeners import Listener
from barnabas.server.cluster.controlled_shutdown import hand_over as hand_over_leaderships
from barnabas.server.cluster.metadata_cache import BrokerImage
from barnabas.server.handlers import controlled_shutdown
from barnabas.server.node import Node
from barnabas.server.settings import advertised, limits
from barnabas.wire.control.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.znodes.tree import ZnodeError

log = logging.getLogger("barnabas.broker")

# How long a stopping broker works on the requests that it has.
FINISHED_WITHIN_S: Final = 5.0
# How long a starting broker waits for a controller before it serves without one.
SYNCED_WITHIN_S: Final = 30.0
# How long clients wait for a starting broker to know its cluster.
HELD_WITHIN_S: Final = 5.0


async def load(node: Node) -> None:
    """Read the properties from the tree, and open the logs."""
    state = node.state
    await node.config_changes.start()
    await node.features.start()
    await state.configs.load()
    await state.users.load()
    await state.quota_admin.load()
    state.securities.follow(state.configs.broker)
    await state.jwks.start()
    await node.tokens.start()
    if state.acl_admin is not None:
        await state.acl_admin.start()
    # On a thread: with thousands of logs the loop would not see a signal for seconds.
    open_all = partial(state.logs.open_all, state.configs.topic, _progress)
    for removal in await state.environment.offload(open_all):
        state.removals.remove_later(removal)


async def serve(node: Node) -> list[Listener]:
    """Open the listeners, register, and return when the controller has sent all roles."""
    state = node.state
    config = state.config
    await state.quotas.follow(limits(state.configs.broker))
    await node.registration.outlive()
    endpoints = [await node.listeners.open(listener) for listener in config.listeners()]
    image = BrokerImage(
        state.broker_id, advertised(config, endpoints), config.optional_str("broker.rack")
    )
    await node.session.enter(image)
    state.gate.admit_controller()
    node.controller.start()
    await _synchronise(node)
    return endpoints


async def _synchronise(node: Node) -> None:
    """Return when the metadata is complete, or after a while without it.

    Clients wait so long, too, but never for many seconds: other brokers may serve them.
    """
    syncing = node.startup_sync.begin()
    await asyncio.wait([syncing], timeout=HELD_WITHIN_S)
    node.state.gate.open()
    await asyncio.wait([syncing], timeout=SYNCED_WITHIN_S - HELD_WITHIN_S)
    if syncing.done():
        syncing.result()
        node.partitions.remove_strays()
    else:
        log.warning("no LeaderAndIsr from a controller yet; starting without it")


async def hand_over(node: Node) -> None:
    """Let other brokers lead what this one leads, while it still serves."""

    async def ask_own(request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        return await controlled_shutdown.handle(node.broker, request, None)

    state = node.state
    node.partitions.is_stopping = True
    await hand_over_leaderships(
        state.broker_id,
        node.registration,
        state.configs.broker,
        state.metadata,
        ask_own,
        node.startup_sync.received,
        state.peers,
    )


async def leave(node: Node) -> None:
    """Resign as controller, and stay registered no longer than the session lasts."""
    try:
        await node.controller.stop()
    except (DiskFault, ZnodeError) as e:
        log.warning("controller not resigned, it ends with the session: %s", e)
    await node.session.leave()


async def finish(node: Node) -> None:
    """Finish the requests at hand; those that wait for other replicas, which cannot reach this
    broker any more, wait no longer."""
    node.state.gate.open()
    await node.startup_sync.stop()
    finishing = asyncio.ensure_future(node.state.work.finished())
    await asyncio.wait([finishing], timeout=FINISHED_WITHIN_S)
    node.partitions.stop_leading()
    await finishing


async def close_logs(node: Node) -> None:
    """Close the logs cleanly: the next start need not recover them."""
    state = node.state
    offsets, epoch = state.replicas.high_watermarks(), node.registration.epoch
    await state.environment.offload(lambda: state.logs.close(offsets, epoch))


def _progress(done: int, total: int) -> None:
    if done == total or done % 1000 == 0:
        log.info("logs opened done=%d total=%d", done, total)
