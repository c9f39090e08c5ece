"""The session with the coordination tree: its end, and the registration in the next one."""

import asyncio
import logging
from typing import Final

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.controller import events
from barnabas.controller.controller import Controller
from barnabas.server.cluster.acl_admin import AclAdmin
from barnabas.server.cluster.config_admin import ConfigAdmin
from barnabas.server.cluster.config_changes import ConfigChanges
from barnabas.server.cluster.delegation_tokens import DelegationTokens
from barnabas.server.cluster.features import Features
from barnabas.server.cluster.membership import Registration
from barnabas.server.cluster.metadata_cache import BrokerImage
from barnabas.server.cluster.partition_roles import PartitionRoles
from barnabas.znodes.tree import Coordination, SessionExpired, SessionState

log = logging.getLogger("barnabas.membership")

# The pause before an unanswered request to the tree is repeated.
RETRY_S: Final = 0.2


class SessionRenewal:
    """Gives up all leaderships when a session expires, and registers in a new one."""

    def __init__(
        self,
        coordination: Coordination,
        registration: Registration,
        partitions: PartitionRoles,
        controller: Controller,
        config_admin: ConfigAdmin,
        config_changes: ConfigChanges,
        features: Features,
        tokens: DelegationTokens,
        acls: AclAdmin | None = None,
    ) -> None:
        self._coordination = coordination
        self._registration = registration
        self._partitions = partitions
        self._controller = controller
        self._config_admin = config_admin
        self._config_changes = config_changes
        self._features = features
        self._tokens = tokens
        self._acls = acls
        self._renewing: asyncio.Task[None] | None = None
        self._is_leaving = False

    async def enter(self, image: BrokerImage) -> None:
        """Register, and from now on again in every session.

        Raises  ConfigError, if a live broker has this id
        """
        await self._registration.register(image)

        def on_state(state: SessionState) -> None:
            if not self._is_leaving:
                self._on_state(state, image)

        self._coordination.listen(on_state)
        if self._coordination.state is SessionState.EXPIRED:  # before anybody listened
            on_state(SessionState.EXPIRED)

    async def leave(self) -> None:
        """Register no more; the registration goes with the session."""
        self._is_leaving = True
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    def _on_state(self, state: SessionState, image: BrokerImage) -> None:
        if state is SessionState.EXPIRED:
            log.warning("session expired, giving up registration and leaderships")
            self._registration.on_expired()
            led = self._partitions.stop_leading()
            log.warning("stopped leading until the next LeaderAndIsr stopped=%d", led)
            self._controller.put(events.SessionEnded())
            if self._renewing is not None:
                self._renewing.cancel()
            self._renewing = asyncio.ensure_future(self._renew(image))
        elif state is SessionState.SUSPENDED:
            log.warning("coordination service does not respond, continuing with cached metadata")

    async def _renew(self, image: BrokerImage) -> None:
        """Begin a new session and register in it, however long that takes."""
        while True:
            try:
                await self._coordination.renew()
                await self._registration.register(image)
                self._controller.put(events.SessionRenewed())
                await self._config_changes.start()
                await self._features.start()
                await self._config_admin.reload()
                await self._tokens.start()
                if self._acls is not None:
                    await self._acls.start()
                return
            except SessionExpired:
                return  # the listener got that event, too
            except LawBroken:
                raise
            except BarnabasError as e:
                log.warning("not registered yet: %s", e)
                await asyncio.sleep(RETRY_S)
