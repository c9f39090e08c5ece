"""Controlled shutdown: a stopping broker asks the controller to move its leaderships away."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from barnabas.base.errors import BarnabasError, BrokerError, ErrorCode, PeerGone
from barnabas.base.ids import BrokerId
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.cluster.membership import Registration
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.peer_connections import PeerConnections
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

log = logging.getLogger("barnabas.shutdown")

VERSION: Final = 3

AskOwn = Callable[[ControlledShutdownRequest], Awaitable[ControlledShutdownResponse]]


async def hand_over(
    broker_id: BrokerId,
    registration: Registration,
    config: BrokerConfig,
    metadata: MetadataCache,
    ask_own: AskOwn,
    received: asyncio.Event,
    peers: PeerConnections,
) -> bool:
    """Return whether all leaderships were handed over, or no other broker is left.

    Tries as often as is configured, and gives up then: the broker stops anyway. A
    control request, which may change the metadata, sets `received`.
    """
    if not config.bool("controlled.shutdown.enable"):
        return True
    attempts = 1 + config.int("controlled.shutdown.max.retries")
    back_off_s = config.long("controlled.shutdown.retry.backoff.ms") / 1000
    for attempt in range(attempts):
        if len(metadata.brokers) < 2:
            return True
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=registration.epoch)
        try:
            if await _ask(request, broker_id, config, metadata, ask_own, peers):
                return True
        except BarnabasError as e:
            log.warning("leaderships not handed over attempt=%d why=%s", attempt + 1, e)
        if attempt + 1 < attempts:
            await _cluster_changed_within(back_off_s, metadata, received)
    return False


async def _ask(
    request: ControlledShutdownRequest,
    broker_id: BrokerId,
    config: BrokerConfig,
    metadata: MetadataCache,
    ask_own: AskOwn,
    peers: PeerConnections,
) -> bool:
    if metadata.controller == broker_id:
        answer = await _ask_own(request, config, ask_own)
    else:
        answer = await _ask_other(request, broker_id, config, metadata, peers)
    if answer.error_code is not ErrorCode.none:
        raise BrokerError(answer.error_code)
    remaining = answer.remaining_partitions
    log.info("leaderships handed over remaining=%d", len(remaining))
    return not remaining


async def _ask_own(
    request: ControlledShutdownRequest, config: BrokerConfig, ask_own: AskOwn
) -> ControlledShutdownResponse:
    """Ask the controller in this process, which may wait for the tree; a stop does not."""
    timeout_s = config.int("controller.socket.timeout.ms") / 1000
    try:
        async with asyncio.timeout(timeout_s):
            return await ask_own(request)
    except TimeoutError:
        raise PeerGone(f"the controller of this broker did not answer in {timeout_s} s") from None


async def _ask_other(
    request: ControlledShutdownRequest,
    broker_id: BrokerId,
    config: BrokerConfig,
    metadata: MetadataCache,
    peers: PeerConnections,
) -> ControlledShutdownResponse:
    controller = metadata.brokers.get(metadata.controller)
    if controller is None:
        raise PeerGone("there is no controller")
    host, port = controller.endpoint(config.inter_broker_listener_name())
    timeout_s = config.int("controller.socket.timeout.ms") / 1000
    peer = await peers.connect(host, port, str(broker_id), timeout_s)
    try:
        answer = await peer.request(ApiKey.CONTROLLED_SHUTDOWN, VERSION, request, timeout_s)
    finally:
        peer.close()
    assert isinstance(answer, ControlledShutdownResponse)
    return answer


async def _cluster_changed_within(
    back_off_s: float, metadata: MetadataCache, received: asyncio.Event
) -> None:
    """Wait before the next attempt, but no longer than the controller and the brokers stay."""
    last = (metadata.controller, sorted(metadata.brokers))
    with suppress(TimeoutError):
        async with asyncio.timeout(back_off_s):
            while (metadata.controller, sorted(metadata.brokers)) == last:
                received.clear()
                await received.wait()
