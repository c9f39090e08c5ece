"""Who is controller: the one that made the ephemeral /controller and raised /controller_epoch."""

import logging
from typing import NamedTuple

from barnabas.base.ids import BrokerId
from barnabas.controller.io.tree_session import Session
from barnabas.znodes.layout import (
    Controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from barnabas.znodes.paths import CONTROLLER, CONTROLLER_EPOCH
from barnabas.znodes.tree import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Delete,
    NodeExists,
    NoNode,
    SessionState,
    Set,
    Stat,
    Watch,
    ZnodeError,
)

log = logging.getLogger("barnabas.controller")


class Elected(NamedTuple):
    """A controller's epoch, and the version of /controller_epoch that fences what it writes."""

    epoch: int
    epoch_version: int
    elected_ms: int
    session: Session


async def look(session: Session, watch: Watch) -> Stat | None:
    """Who holds /controller, with a watch for the next change."""
    return await session.call(lambda: session.tree.exists(CONTROLLER, watch))


async def stand(session: Session, broker_id: BrokerId, now_ms: int, watch: Watch) -> Elected | None:
    """Be controller, or learn that another is: None. The watch tells when that changes.

    Making /controller and raising the epoch is one transaction, so that no two controllers ever
    have one epoch, and no epoch is without its controller.

    Raises  SessionExpired
    """
    lost = False
    while True:
        holder = await look(session, watch)
        if holder is not None and holder.ephemeral_owner != session.session_id:
            return None
        epoch, version = await _epoch(session)
        if holder is not None:
            if lost:
                # Ours: the transaction happened, only its answer did not come.
                return Elected(epoch, version, now_ms, session)
            await _delete(session)
        try:
            await session.tree.multi(_claim(broker_id, now_ms, epoch + 1, version))
        except ConnectionLoss:
            lost = True
        except (NodeExists, BadVersion):
            lost = False
        else:
            return Elected(epoch + 1, version + 1, now_ms, session)


def _claim(broker_id: BrokerId, now_ms: int, epoch: int, version: int) -> list[Create | Set]:
    controller = encode_controller(Controller(broker_id, now_ms))
    return [
        Create(CONTROLLER, controller, ephemeral=True),
        Set(CONTROLLER_EPOCH, encode_controller_epoch(epoch), version),
    ]


async def resign(elected: Elected) -> None:
    """Give /controller back, if it is still ours, so that another can be elected at once.

    If the tree cannot be asked now the session's end will do it.
    """
    if elected.session.is_over or elected.session.tree.state is SessionState.SUSPENDED:
        return
    try:
        await elected.session.tree.multi(
            [Check(CONTROLLER_EPOCH, elected.epoch_version), Delete(CONTROLLER)]
        )
    except ZnodeError as error:
        log.info("/controller is not given back: %s", error)


async def _epoch(session: Session) -> tuple[int, int]:
    """The newest epoch and its version; 0 if there was no controller ever."""
    while True:
        try:
            data, stat = await session.call(lambda: session.tree.get(CONTROLLER_EPOCH))
            return decode_controller_epoch(data), stat.version
        except NoNode:
            await _make_epoch(session)


async def _make_epoch(session: Session) -> None:
    try:
        first = encode_controller_epoch(0)
        await session.call(lambda: session.tree.create(CONTROLLER_EPOCH, first))
    except NodeExists:
        return


async def _delete(session: Session) -> None:
    try:
        await session.call(lambda: session.tree.delete(CONTROLLER))
    except NoNode:
        return
