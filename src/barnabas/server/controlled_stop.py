"""A broker that is asked to stop first asks the controller to let others lead what it leads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.base.broker_config import BrokerConfig
from barnabas.base.errors import BarnabasError, BrokerError, ErrorCode, PeerGone
from barnabas.base.ids import BrokerId
from barnabas.server.metadata import MetadataCache
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.wire.peer import Peer

log = logging.getLogger("barnabas.shutdown")

VERSION: Final = 3
# A new controller may be on its way: looked for this often within one attempt's back-off.
LOOK_AGAIN_S: Final = 0.2

AskOwn = Callable[[ControlledShutdownRequest], Awaitable[ControlledShutdownResponse]]


async def hand_over(
    broker_id: BrokerId,
    broker_epoch: Callable[[], int],
    config: BrokerConfig,
    metadata: MetadataCache,
    ask_own: AskOwn,
) -> bool:
    """Whether all leaderships were handed over, or there is nobody to take them.

    Tries as often as is configured, and gives up then: the broker stops anyway.
    """
    if not config.bool("controlled.shutdown.enable") or len(metadata.brokers) < 2:
        return True
    attempts = 1 + config.int("controlled.shutdown.max.retries")
    back_off_s = config.long("controlled.shutdown.retry.backoff.ms") / 1000
    for attempt in range(attempts):
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        try:
            if await _ask(request, broker_id, config, metadata, ask_own):
                return True
        except BarnabasError as e:
            log.warning("leaderships not handed over attempt=%d why=%s", attempt + 1, e)
        if attempt + 1 < attempts:
            await _new_controller_within(metadata, back_off_s)
    return False


async def _ask(
    request: ControlledShutdownRequest,
    broker_id: BrokerId,
    config: BrokerConfig,
    metadata: MetadataCache,
    ask_own: AskOwn,
) -> bool:
    if metadata.controller == broker_id:
        answer = await ask_own(request)
    else:
        answer = await _ask_other(request, broker_id, config, metadata)
    if answer.error_code is not ErrorCode.none:
        raise BrokerError(answer.error_code)
    remaining = answer.remaining_partitions
    log.info("leaderships handed over remaining=%d", len(remaining))
    return not remaining


async def _ask_other(
    request: ControlledShutdownRequest,
    broker_id: BrokerId,
    config: BrokerConfig,
    metadata: MetadataCache,
) -> ControlledShutdownResponse:
    controller = metadata.brokers.get(metadata.controller)
    if controller is None:
        raise PeerGone("there is no controller")
    host, port = controller.endpoint(config.inter_broker_listener_name())
    timeout_s = config.int("controller.socket.timeout.ms") / 1000
    peer = await Peer.connect(host, port, client_id=str(broker_id), timeout_s=timeout_s)
    try:
        answer = await peer.request(ApiKey.CONTROLLED_SHUTDOWN, VERSION, request, timeout_s)
    finally:
        peer.close()
    assert isinstance(answer, ControlledShutdownResponse)
    return answer


async def _new_controller_within(metadata: MetadataCache, back_off_s: float) -> None:
    """Wait before the next attempt, but no longer than until there is another controller."""
    last = metadata.controller
    loop = asyncio.get_running_loop()
    until = loop.time() + back_off_s
    while loop.time() < until and metadata.controller == last:
        await asyncio.sleep(LOOK_AGAIN_S)
