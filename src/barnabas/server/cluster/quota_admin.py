"""Client quotas in the coordination tree: read, followed, described and altered."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.client_quotas import (
    ABSENT,
    CLIENT_KEYS,
    CONNECTION,
    CONSUMER,
    PRODUCER,
    ClientQuotas,
    QuotaEntity,
)
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.server.network.open_connections import OpenConnections
from barnabas.znodes import paths
from barnabas.znodes.paths import ConfigEntity
from barnabas.znodes.tree import Coordination, NoNode

log = logging.getLogger("barnabas.quotas")

_DEFAULT: Final = "<default>"
_WHOLE: Final = (PRODUCER, CONSUMER, CONNECTION)


class Change(NamedTuple):
    """A quota to set, or to remove (None)."""

    key: str
    value: float | None


class QuotaAdmin:
    """Keeps `ClientQuotas` as the tree has them, and changes both."""

    def __init__(
        self,
        coordination: Coordination,
        configs: Configs,
        quotas: ClientQuotas,
        connections: OpenConnections,
    ) -> None:
        self._coordination = coordination
        self._configs = configs
        self.quotas = quotas
        self._connections = connections

    async def load(self) -> None:
        """Read all quotas: changes may have been missed."""
        found = [ConfigEntity(f"clients/{name}") for name in await self._children("clients")]
        found += [ConfigEntity(f"ips/{name}") for name in await self._children("ips")]
        for user in await self._children("users"):
            found.append(ConfigEntity(f"users/{user}"))
            found += [
                ConfigEntity(f"users/{user}/clients/{name}")
                for name in await self._children(f"users/{user}/clients")
            ]
        there = [_entity(each) for each in found]
        for gone in [each for each in self.quotas.entities if each not in there]:
            self.quotas.know(gone, {})
        for each in found:
            await self.refresh(each)

    async def refresh(self, entity: ConfigEntity) -> None:
        """Read the quotas of an entity that some broker has changed."""
        self._know(_entity(entity), _values(await self._configs.read(entity)))

    async def _children(self, below: str) -> list[str]:
        try:
            return await self._coordination.children(f"{paths.CONFIG}/{below}")
        except NoNode:
            return []

    def _know(self, entity: QuotaEntity, values: Mapping[str, float]) -> None:
        if self.quotas.entities.get(entity, {}) != values:
            self.quotas.know(entity, values)
            self._connections.forget_shortcuts()

    async def alter(
        self, entity: QuotaEntity, changes: Sequence[Change], *, validate_only: bool
    ) -> None:
        """Set and remove quotas of an entity. Raises BrokerError, nothing changed."""
        for change in changes:
            _check(entity, change)
        if validate_only:
            return
        path = _path(entity)

        def set_values(config: dict[str, str]) -> None:
            for key, value in changes:
                if value is None:
                    config.pop(key, None)
                else:
                    config[key] = str(int(value)) if key in _WHOLE else str(float(value))

        with coordinating():
            await self._configs.change(path, set_values)
            await self.refresh(path)
        log.info("quotas changed entity=%s", path)


def read_entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of a request. Raises BrokerError(invalid_request)."""
    named = dict(parts)
    if not named or len(named) < len(parts):
        raise _invalid("Invalid empty client quota entity" if not parts else "Duplicate entity")
    for kind, name in named.items():
        if kind not in ("user", "client-id", "ip"):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if "ip" in named and len(named) > 1:
        raise _invalid("Invalid quota entity combination, ip entity should not be used with others")
    return QuotaEntity(
        named.get("user", ABSENT), named.get("client-id", ABSENT), named.get("ip", ABSENT)
    )


def _check(entity: QuotaEntity, change: Change) -> None:
    keys = (CONNECTION,) if entity.ip is not ABSENT else CLIENT_KEYS
    if change.key not in keys:
        raise _invalid(f"Invalid configuration key {change.key}")
    value = change.value
    if value is None:
        return
    if value <= 0 and not (change.key == CONNECTION and value == 0):
        raise _invalid(f"Quota {change.key} must be greater than 0")
    if change.key in _WHOLE and value != int(value):
        raise _invalid(f"Configuration {change.key} must be a whole number")


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.invalid_request, message)


def _values(config: Mapping[str, str]) -> dict[str, float]:
    """The quotas among an entity's properties; a user also has credentials there."""
    found: dict[str, float] = {}
    for key in (*CLIENT_KEYS, CONNECTION):
        if key in config:
            with suppress(ValueError):
                found[key] = float(config[key])
    return found


def _entity(entity: ConfigEntity) -> QuotaEntity:
    kind, _, rest = entity.partition("/")
    if kind == "ips":
        return QuotaEntity(ip=_named(rest))
    if kind == "clients":
        return QuotaEntity(client_id=_named(rest))
    user, _, client = rest.partition("/clients/")
    return QuotaEntity(_named(user), _named(client) if client else ABSENT)


def _path(entity: QuotaEntity) -> ConfigEntity:
    if entity.ip is not ABSENT:
        return ConfigEntity(f"ips/{_node(entity.ip)}")
    if entity.user is ABSENT:
        return ConfigEntity(f"clients/{_node(entity.client_id)}")
    client = "" if entity.client_id is ABSENT else f"/clients/{_node(entity.client_id)}"
    return ConfigEntity(f"users/{_node(entity.user)}{client}")


def _named(node: str) -> str | None:
    return None if node == _DEFAULT else paths.desanitized(node)


def _node(name: str | bool | None) -> str:
    return _DEFAULT if name is None else paths.sanitized(str(name))
