"""The controller election: one transaction creates /controller and raises /controller_epoch."""

import logging
from typing import NamedTuple

from barnabas.base.ids import BrokerId
from barnabas.controller.io.tree_session import TreeSession
from barnabas.znodes.layout import (
    ControllerRegistration,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from barnabas.znodes.paths import CONTROLLER, CONTROLLER_EPOCH
from barnabas.znodes.tree import (
    BadVersion,
    CheckVersion,
    ConnectionLoss,
    CreateNode,
    DeleteNode,
    NodeExists,
    NoNode,
    SessionState,
    SetData,
    Stat,
    Watch,
    ZnodeError,
)

log = logging.getLogger("barnabas.controller")


class ElectedEpoch(NamedTuple):
    """A won election: the controller epoch, and the version of /controller_epoch that fences it."""

    epoch: int
    epoch_version: int
    elected_ms: int
    session: TreeSession


async def watch_controller(session: TreeSession, watch: Watch) -> Stat | None:
    """The Stat of /controller, None without a controller; sets a watch for its next change."""
    return await session.call(lambda: session.tree.exists(CONTROLLER, watch))


async def elect(
    session: TreeSession, broker_id: BrokerId, now_ms: int, watch: Watch
) -> ElectedEpoch | None:
    """Become controller, or return None if another broker is; the watch fires when that changes.

    One transaction creates /controller and raises the epoch. So no two controllers share an
    epoch, and no epoch lacks its controller.

    Raises  SessionExpired
    """
    lost = False
    while True:
        holder = await watch_controller(session, watch)
        if holder is not None and holder.ephemeral_owner != session.session_id:
            return None
        epoch, version = await _epoch(session)
        if holder is not None:
            if lost:
                # The lost transaction did commit: /controller is ours.
                return ElectedEpoch(epoch, version, now_ms, session)
            await _delete(session)
        try:
            await session.tree.multi(_claim(broker_id, now_ms, epoch + 1, version))
        except ConnectionLoss:
            lost = True
        except (NodeExists, BadVersion):
            lost = False
        else:
            return ElectedEpoch(epoch + 1, version + 1, now_ms, session)


def _claim(
    broker_id: BrokerId, now_ms: int, epoch: int, version: int
) -> list[CreateNode | SetData]:
    controller = encode_controller(ControllerRegistration(broker_id, now_ms))
    return [
        CreateNode(CONTROLLER, controller, ephemeral=True),
        SetData(CONTROLLER_EPOCH, encode_controller_epoch(epoch), version),
    ]


async def resign(elected: ElectedEpoch) -> None:
    """Delete /controller if it is still ours, so that another can be elected at once.

    If the tree cannot be reached, the node goes when the session ends.
    """
    if elected.session.is_over or elected.session.tree.state is SessionState.SUSPENDED:
        return
    try:
        await elected.session.tree.multi(
            [CheckVersion(CONTROLLER_EPOCH, elected.epoch_version), DeleteNode(CONTROLLER)]
        )
    except ZnodeError as error:
        log.info("could not delete /controller: %s", error)


async def _epoch(session: TreeSession) -> tuple[int, int]:
    """The newest controller epoch and its version; epoch 0 before the first election."""
    while True:
        try:
            data, stat = await session.call(lambda: session.tree.get(CONTROLLER_EPOCH))
            return decode_controller_epoch(data), stat.version
        except NoNode:
            await _make_epoch(session)


async def _make_epoch(session: TreeSession) -> None:
    try:
        first = encode_controller_epoch(0)
        await session.call(lambda: session.tree.create(CONTROLLER_EPOCH, first))
    except NodeExists:
        return


async def _delete(session: TreeSession) -> None:
    try:
        await session.call(lambda: session.tree.delete(CONTROLLER))
    except NoNode:
        return
