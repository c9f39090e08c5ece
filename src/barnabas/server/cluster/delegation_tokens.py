"""Delegation tokens in the coordination tree: created, renewed, expired, and followed."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.errors import BarnabasError, BrokerError, ErrorCode, LawBroken
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.controller.controller import Controller
from barnabas.security.token_cache import TokenCache
from barnabas.server.cluster.change_notifications import ChangeNotifications, notify
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes import token_layout
from barnabas.znodes.paths import uuid_text
from barnabas.znodes.token_layout import DelegationToken
from barnabas.znodes.tree import Coordination, MalformedZnode, NodeExists, NoNode

log = logging.getLogger("barnabas.tokens")


class TokenTimes(NamedTuple):
    """How long a token lasts, at most and until it must be renewed, and how often to check."""

    max_lifetime_ms: int
    expiry_ms: int
    check_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> "TokenTimes":
        return cls(
            config.long("delegation.token.max.lifetime.ms"),
            config.long("delegation.token.expiry.time.ms"),
            config.long("delegation.token.expiry.check.interval.ms"),
        )


class DelegationTokens:
    """Keeps the cache equal to the tree. As in Kafka, any broker changes tokens, and the
    controller removes those that have expired.
    """

    def __init__(
        self,
        coordination: Coordination,
        cache: TokenCache,
        controller: Controller,
        times: TokenTimes,
        clock: Clock,
        random: Random,
    ) -> None:
        self._coordination = coordination
        self.cache = cache
        self._controller = controller
        self._times = times
        self._clock = clock
        self._random = random
        self._notifications = ChangeNotifications(coordination, token_layout.TOKEN_CHANGES, self)
        self._one_at_a_time = asyncio.Lock()
        self._checking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watch for changes, then read all tokens; also again, in a new session."""
        if not self.cache.is_enabled:
            return
        for path in (token_layout.TOKENS, token_layout.TOKEN_CHANGES):
            with suppress(NodeExists):
                await self._coordination.create(path, make_parents=True)
        await self._notifications.start()
        names = await self._coordination.children(token_layout.TOKENS)
        for token in self.cache:
            if token.token_id not in names:
                self.cache.remove(token.token_id)
        for name in names:
            await self._refresh(name)
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._remove_expired())

    async def stop(self) -> None:
        await self._notifications.stop()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)

    async def on_change(self, _: str, data: bytes, /) -> None:
        """See `Receiver`."""
        await self._refresh(data.decode("utf-8", "replace"))

    async def _refresh(self, token_id: str) -> None:
        path = token_layout.token_path(token_id)
        try:
            data, _ = await self._coordination.get(path)
            self.cache.put(token_layout.decode_token(path, data))
        except (NoNode, MalformedZnode) as e:
            if isinstance(e, MalformedZnode):
                log.error("unreadable delegation token, nobody can use it: %s", e)
            self.cache.remove(token_id)

    # -- changing ------------------------------------------------------------

    async def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> DelegationToken:
        """Raises BrokerError, nothing changed."""
        self.check_enabled()
        now, longest = self._clock.now_ms(), self._times.max_lifetime_ms
        max_ms = now + (min(max_lifetime_ms, longest) if max_lifetime_ms > 0 else longest)
        expires_ms = min(max_ms, now + self._times.expiry_ms)
        token_id = uuid_text(self._random.uuid())
        token = DelegationToken(
            token_id, owner, requester, tuple(renewers), now, max_ms, expires_ms
        )
        await self._put(token)
        log.info("delegation token created id=%s owner=%s requester=%s", token_id, owner, requester)
        return token

    async def renew(self, principal: str, secret: bytes, period_ms: int) -> int:
        """The token's new expiry. Raises BrokerError, nothing changed."""
        period_ms = self._times.expiry_ms if period_ms < 0 else period_ms
        return await self._end_in(principal, secret, period_ms, "renewed")

    async def expire(self, principal: str, secret: bytes, period_ms: int) -> int:
        """The token's new expiry; a negative period removes it. Raises BrokerError."""
        if period_ms >= 0:
            return await self._end_in(principal, secret, period_ms, "given an end")
        async with self._one_at_a_time:
            token = self._found(principal, secret)
            await self._remove(token)
        log.info("delegation token removed id=%s by=%s", token.token_id, principal)
        return self._clock.now_ms()

    async def _end_in(self, principal: str, secret: bytes, period_ms: int, what: str) -> int:
        """Let the token expire after this time, at most when its life ends; returns when."""
        async with self._one_at_a_time:
            token = self._found(principal, secret)
            now = self._clock.now_ms()
            if token.is_expired(now):
                raise BrokerError(ErrorCode.delegation_token_expired)
            token = token._replace(expires_ms=min(token.max_ms, now + period_ms))
            await self._put(token)
        log.info("delegation token %s id=%s by=%s", what, token.token_id, principal)
        return token.expires_ms

    def describe(self, is_wanted: Callable[[DelegationToken], bool]) -> list[DelegationToken]:
        self.check_enabled()
        return [token for token in self.cache if is_wanted(token)]

    def check_enabled(self) -> None:
        """Raises BrokerError without `delegation.token.secret.key`."""
        if not self.cache.is_enabled:
            raise BrokerError(ErrorCode.delegation_token_auth_disabled)

    def _found(self, principal: str, secret: bytes) -> DelegationToken:
        self.check_enabled()
        token = self.cache.of_hmac(secret)
        if token is None:
            raise BrokerError(ErrorCode.delegation_token_not_found)
        if principal not in (token.owner, *token.renewers):
            raise BrokerError(ErrorCode.delegation_token_owner_mismatch)
        return token

    async def _put(self, token: DelegationToken) -> None:
        path, data = token_layout.token_path(token.token_id), token_layout.encode_token(token)
        with coordinating():
            try:
                await self._coordination.set(path, data)
            except NoNode:
                await self._coordination.create(path, data, make_parents=True)
            self.cache.put(token)
            await self._notify(token)

    async def _remove(self, token: DelegationToken) -> None:
        with coordinating():
            with suppress(NoNode):
                await self._coordination.delete(token_layout.token_path(token.token_id))
            self.cache.remove(token.token_id)
            await self._notify(token)

    async def _notify(self, token: DelegationToken) -> None:
        await notify(self._coordination, token_layout.TOKEN_CHANGE, token.token_id.encode())

    # -- expiring ------------------------------------------------------------

    async def _remove_expired(self) -> None:
        while True:
            await asyncio.sleep(self._times.check_ms / 1000)
            try:
                if self._controller.is_active:
                    await self.remove_expired()
            except LawBroken:
                raise
            except BarnabasError as e:
                log.warning("expired delegation tokens not removed yet: %s", e)

    async def remove_expired(self) -> None:
        """Remove the tokens whose time is over."""
        for token in self.cache:
            if token.is_expired(self._clock.now_ms()):
                async with self._one_at_a_time:
                    await self._remove(token)
                log.info("delegation token expired id=%s owner=%s", token.token_id, token.owner)
