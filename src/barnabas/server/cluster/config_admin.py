"""DescribeConfigs and AlterConfigs: the properties of topics and brokers, kept in the tree."""

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.base.errors import BrokerError, ConfigError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.config.broker_config import broker_key
from barnabas.config.config_key import ConfigEntry, ConfigKey, ConfigType
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.server.cluster.broker_loggers import alter_loggers, describe_loggers
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.dynamic_configs import DynamicConfigs
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.quota_admin import QuotaAdmin
from barnabas.server.cluster.topic_names import check_topic_name
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.server.cluster.user_credentials import UserCredentials
from barnabas.znodes import paths
from barnabas.znodes.paths import ConfigEntity
from barnabas.znodes.tree import NoNode

log = logging.getLogger("barnabas.configs")

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8


class Resource(NamedTuple):
    """A resource with properties: a topic by name, a broker by id, all brokers by no name."""

    type: int
    name: str


class Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    name: str
    operation: Operation
    value: str | None


class Named(Protocol):
    """A property in a request."""

    name: str


def check_once(times_named: int, configs: Sequence[Named]) -> None:
    """Raises BrokerError unless a request names a resource, and each of its properties, once."""
    if times_named > 1:
        raise _refused("Each resource must appear at most once.")
    if len({config.name for config in configs}) < len(configs):
        raise _refused("Error due to duplicate config keys")


def check_values(nulls: Iterable[str]) -> None:
    """Raises BrokerError if any property is to be set to nothing."""
    if names := list(nulls):
        raise _refused(f"Null value not supported for : {', '.join(names)}")


class ConfigAdmin:
    """Describes and alters properties; applies to this broker what any broker has altered."""

    def __init__(
        self,
        broker_id: BrokerId,
        configs: Configs,
        metadata: MetadataCache,
        dynamic: DynamicConfigs,
        users: UserCredentials,
        quotas: QuotaAdmin,
    ) -> None:
        self._broker_id = broker_id
        self._configs = configs
        self._metadata = metadata
        self._dynamic = dynamic
        self._users = users
        self._quotas = quotas
        # Alterations by this broker never have to be tried again because of each other.
        self._one_at_a_time = asyncio.Lock()

    async def refresh(self, entity: ConfigEntity) -> None:
        """Apply the properties of an entity that some broker has changed."""
        kind, _, name = entity.partition("/")
        if kind == "topics":
            if self._metadata.topic(name) is not None or self._configs.has_topic(name):
                self._configs.know_topic(name, await self._configs.read(entity))
                self._dynamic.on_topic_changed(name)
        elif entity in (paths.broker_entity(self._broker_id), paths.broker_entity(None)):
            await self._configs.load_broker()
            await self._dynamic.on_broker_changed()
        elif kind in ("users", "clients", "ips"):
            if kind == "users" and "/" not in name:
                await self._users.refresh(name)
            await self._quotas.refresh(entity)

    async def reload(self) -> None:
        """Read all properties again, and apply them: changes may have been missed."""
        await self._configs.load()
        await self._users.load()
        await self._quotas.load()
        await self._dynamic.on_broker_changed()

    # -- reading -------------------------------------------------------------

    def describe(self, resource: Resource) -> list[ConfigEntry]:
        """Raises BrokerError if there is no such topic or broker here."""
        self._check_described(resource)
        if resource.type == BROKER_LOGGER:
            return describe_loggers()
        if resource.type == TOPIC:
            return self._configs.describe_topic(resource.name)
        if resource.name:
            return self._configs.broker.describe()
        return self._configs.broker.describe_cluster_default()

    # -- changing ------------------------------------------------------------

    async def replace(
        self, resource: Resource, wanted: Mapping[str, str], *, validate_only: bool
    ) -> None:
        """Set these properties of `resource` and no others. Raises BrokerError, nothing changed."""

        def set_all(config: dict[str, str]) -> None:
            config.clear()
            config.update(wanted)

        await self._change(resource, set_all, validate_only)

    async def alter(
        self, resource: Resource, alterations: Sequence[Alteration], *, validate_only: bool
    ) -> None:
        """Change single properties of `resource`. Raises BrokerError, nothing changed."""
        if resource.type == BROKER_LOGGER:
            self._check_own(resource.name, "Node")
            alter_loggers(alterations, validate_only=validate_only)
            return

        def apply_all(config: dict[str, str]) -> None:
            for alteration in alterations:
                _apply(config, alteration, _key(resource, alteration.name))

        await self._change(resource, apply_all, validate_only)

    async def _change(
        self, resource: Resource, change: Callable[[dict[str, str]], None], validate_only: bool
    ) -> None:
        """Change the properties by compare-and-set: other brokers may alter them, too."""
        self._check_altered(resource)
        entity = self._entity(resource)

        def checked(config: dict[str, str]) -> None:
            change(config)
            self._check(resource, config)

        async with self._one_at_a_time:
            with coordinating():
                if validate_only:
                    checked(await self._configs.read(entity))
                    return
                changed = await self._stored(resource, entity, checked)
                keys = ",".join(sorted(changed)) or "none"
                log.info("config changed resource=%s keys=%s", resource, keys)
                await self.refresh(entity)

    async def _stored(
        self, resource: Resource, entity: ConfigEntity, change: Callable[[dict[str, str]], None]
    ) -> dict[str, str]:
        """The changed properties. A topic that was deleted meanwhile gets no znode."""
        try:
            return await self._configs.change(entity, change, must_exist=resource.type == TOPIC)
        except NoNode:
            raise _no_topic(resource.name) from None
        except ConfigError as e:
            raise BrokerError(ErrorCode.invalid_request, str(e)) from e

    def _entity(self, resource: Resource) -> ConfigEntity:
        if resource.type == TOPIC:
            return paths.topic_entity(resource.name)
        return paths.broker_entity(self._broker_id if resource.name else None)

    def _check(self, resource: Resource, wanted: Mapping[str, str]) -> None:
        if resource.type == TOPIC:
            self._check_topic_values(resource.name, wanted)
            return
        try:
            checked = self._configs.broker.validate_dynamic_values(
                wanted, cluster_default=not resource.name
            )
            self._dynamic.check(checked)
        except ConfigError as e:
            raise BrokerError(ErrorCode.invalid_request, str(e)) from e

    def _check_topic_values(self, name: str, wanted: Mapping[str, str]) -> None:
        try:
            self._configs.check_overrides(wanted)
        except BrokerError as e:
            if any(key not in TOPIC_KEYS for key in wanted):
                raise
            raise BrokerError(
                e.code,
                f"Invalid config value for resource ConfigResource(type=TOPIC, name='{name}'): {e}",
            ) from e

    def _check_described(self, resource: Resource) -> None:
        if resource.type == TOPIC:
            check_topic_name(resource.name)
            self._check_topic(resource.name)
        elif resource.type == BROKER_LOGGER:
            if not resource.name:
                raise _refused("Broker id must not be empty")
            self._check_own(resource.name, "Broker")
        elif resource.type != BROKER:
            raise _refused(f"Unsupported resource type: {resource.type}")
        elif resource.name and _broker_id(resource.name, "Broker") != self._broker_id:
            raise _refused(
                f"Unexpected broker id, expected {self._broker_id} or empty string, "
                f"but received {resource.name}"
            )

    def _check_altered(self, resource: Resource) -> None:
        if resource.type == TOPIC:
            if not resource.name:
                raise _refused("Default topic resources are not allowed.")
            self._check_topic(resource.name)
        elif resource.type != BROKER:
            raise _refused(f"Unknown resource type {resource.type}")
        elif resource.name:
            self._check_own(resource.name, "Node")

    def _check_own(self, name: str, kind: str) -> None:
        """Refuse the id of another broker: a client sends the request to the broker it is for."""
        if _broker_id(name, kind) != self._broker_id:
            raise _refused(f"Unexpected broker id, expected {self._broker_id}, but received {name}")

    def _check_topic(self, name: str) -> None:
        if self._metadata.topic(name) is None:
            raise _no_topic(name)


def _key(resource: Resource, name: str) -> ConfigKey | None:
    return TOPIC_KEYS.get(name) if resource.type == TOPIC else broker_key(name)


def _apply(wanted: dict[str, str], alteration: Alteration, key: ConfigKey | None) -> None:
    """A list grows or shrinks from what is set on the resource itself, else from Kafka's default,
    whatever else the brokers are configured to."""
    name, operation, value = alteration
    if operation is Operation.DELETE:
        wanted.pop(name, None)
        return
    assert value is not None
    if operation is Operation.SET:
        wanted[name] = value
        return
    if key is None or key.type is not ConfigType.LIST:
        raise BrokerError(
            ErrorCode.invalid_config,
            f"Config value {operation.name.lower()} is not allowed for config key: {name}",
        )
    items = [item for item in wanted.get(name, key.default_text or "").split(",") if item]
    changed = [item.strip() for item in value.split(",")]
    if operation is Operation.APPEND:
        items += [item for item in changed if item not in items]
    else:
        items = [item for item in items if item not in changed]
    wanted[name] = ",".join(items)


def _broker_id(name: str, kind: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise _refused(f"{kind} id must be an integer, but it is: {name}") from None


def _no_topic(name: str) -> BrokerError:
    return BrokerError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")


def _refused(message: str) -> BrokerError:
    return BrokerError(ErrorCode.invalid_request, message)
