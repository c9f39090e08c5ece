"""The properties of topics and brokers: described, altered, kept in the coordination tree."""

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from barnabas.base.errors import BrokerError, ConfigError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.config import topic_config
from barnabas.config.broker_config import BrokerConfig, broker_key
from barnabas.config.config_key import ConfigEntry, ConfigKey, ConfigType
from barnabas.config.topic_config import TopicConfig
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.topic_names import check_topic_name, is_topic_name
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes import layout, paths
from barnabas.znodes.paths import ConfigEntity
from barnabas.znodes.tree import Coordination, DeleteNode, MalformedZnode, NodeExists, NoNode

log = logging.getLogger("barnabas.configs")

TOPIC: Final = 2
BROKER: Final = 4
# How many of the last notifications stay for brokers that are slow to read them.
NOTIFICATIONS_KEPT: Final = 100


class Resource(NamedTuple):
    """What is configured: a topic by name, a broker by id, all brokers by the empty name."""

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


class Configs:
    """What is set, and what follows from it; whoever must act on a change is told of it."""

    def __init__(
        self,
        coordination: Coordination,
        broker_id: BrokerId,
        static: BrokerConfig,
        metadata: MetadataCache,
        topic_changed: Callable[[str], None],
        broker_changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._coordination = coordination
        self._broker_id = broker_id
        self._static = static
        self._metadata = metadata
        self._topic_changed = topic_changed
        self._broker_changed = broker_changed
        self._topics: dict[str, dict[str, str]] = {}
        self._resolved: dict[str, TopicConfig] = {}
        self._per_broker: dict[str, str] = {}
        self._cluster_default: dict[str, str] = {}
        # An alteration starts from what the one before has left.
        self._one_at_a_time = asyncio.Lock()
        self.broker = static

    async def load(self) -> None:
        """Read what is set now, for all topics and for this broker."""
        names = await self._coordination.children(paths.TOPICS)
        self._topics = dict(zip(names, await self._read_topics(names), strict=True))
        await self._load_dynamic()

    async def _load_dynamic(self) -> None:
        self._per_broker = await self._read(paths.broker_entity(self._broker_id))
        self._cluster_default = await self._read(paths.broker_entity(None))
        self._apply_dynamic()

    async def _read_topics(self, names: Sequence[str]) -> list[dict[str, str]]:
        return await asyncio.gather(*(self._read(paths.topic_entity(name)) for name in names))

    async def know_topics(self, names: Sequence[str]) -> None:
        """Read the properties of those topics that are not known yet: another broker made them.

        No topic has a name that could not be part of a path.
        """
        unknown = [n for n in names if n not in self._topics and is_topic_name(n)]
        for name, overrides in zip(unknown, await self._read_topics(unknown), strict=True):
            self.know_topic(name, overrides)

    async def refresh(self, entity: ConfigEntity) -> None:
        """Go by what an entity's node says now: some broker has changed it."""
        kind, _, name = entity.partition("/")
        if kind == "topics":
            if self._metadata.topic(name) is not None or name in self._topics:
                self.know_topic(name, await self._read(entity))
                self._topic_changed(name)
        elif entity in (paths.broker_entity(self._broker_id), paths.broker_entity(None)):
            await self._load_dynamic()
            await self._tell_all()

    async def reload(self) -> None:
        """Go by what is set now, whatever was missed."""
        await self.load()
        await self._tell_all()

    async def _tell_all(self) -> None:
        await self._broker_changed()
        for topic in self._metadata.topics():
            self._topic_changed(topic.name)

    def _apply_dynamic(self) -> None:
        """Go by the dynamic values, or by none of them where they contradict the static ones."""
        try:
            self.broker = self._static.with_dynamic(self._per_broker, self._cluster_default)
        except ConfigError as e:
            log.warning("dynamic configuration not in force: %s", e)
            self.broker = self._static
        self._resolved.clear()
        for warning in self.broker.warnings[len(self._static.warnings) :]:
            log.warning("config %s", warning)

    async def _read(self, entity: ConfigEntity) -> dict[str, str]:
        try:
            data, _ = await self._coordination.get(paths.config_path(entity))
            return layout.decode_config(entity, data)
        except NoNode:
            return {}
        except MalformedZnode as e:
            log.warning("properties that cannot be read are passed over: %s", e)
            return {}

    # -- reading -------------------------------------------------------------

    def topic(self, name: str) -> TopicConfig:
        """What a topic does; one value for all partitions, and for all topics without overrides."""
        overrides = self._topics.get(name, {})
        known_as = name if overrides else ""
        if known_as not in self._resolved:
            self._resolved[known_as] = self._resolve(name, overrides)
        return self._resolved[known_as]

    def _resolve(self, name: str, overrides: Mapping[str, str]) -> TopicConfig:
        """What overrides make of a topic; what no topic can have is left out.

        Anybody can write to the tree, and a topic with a bad property is to be served all the same.
        """
        try:
            return topic_config.resolve(overrides, self.broker)
        except ConfigError as e:
            log.warning("topic goes without some of its properties topic=%s why=%s", name, e)
        kept: dict[str, str] = {}
        for key, value in overrides.items():
            try:
                topic_config.resolve({**kept, key: value}, self.broker)
            except ConfigError:
                continue
            kept[key] = value
        return topic_config.resolve(kept, self.broker)

    def describe(self, resource: Resource) -> list[ConfigEntry]:
        """Raises BrokerError if there is no such topic or broker here."""
        self._check_described(resource)
        if resource.type == TOPIC:
            return self.describe_overrides(self._topics.get(resource.name, {}))
        if resource.name:
            return self.broker.describe()
        return self.broker.describe_cluster_default()

    def describe_overrides(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """The properties that a topic with these overrides has."""
        return topic_config.describe(overrides, self.broker)

    def check_overrides(self, overrides: Mapping[str, str]) -> None:
        """Raises BrokerError(invalid_config) if a topic cannot have these."""
        try:
            topic_config.validate_overrides(overrides, self.broker)
        except ConfigError as e:
            raise BrokerError(ErrorCode.invalid_config, str(e)) from e

    # -- changing ------------------------------------------------------------

    def know_topic(self, name: str, overrides: Mapping[str, str]) -> None:
        """Go by these overrides of a topic, which are in the tree already."""
        self._topics[name] = dict(overrides)
        self._resolved.pop(name, None)

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)
        self._resolved.pop(name, None)

    async def replace(
        self, resource: Resource, wanted: Mapping[str, str], *, validate_only: bool
    ) -> None:
        """Set these properties of `resource` and no others. Raises BrokerError, nothing changed."""
        async with self._one_at_a_time:
            self._check_altered(resource)
            await self._replace(resource, wanted, validate_only)

    async def alter(
        self, resource: Resource, alterations: Sequence[Alteration], *, validate_only: bool
    ) -> None:
        """Change single properties of `resource`. Raises BrokerError, nothing changed."""
        async with self._one_at_a_time:
            self._check_altered(resource)
            with coordinating():
                wanted = await self._read(self._entity(resource))
            for alteration in alterations:
                _apply(wanted, alteration, _key(resource, alteration.name))
            await self._replace(resource, wanted, validate_only)

    async def _replace(
        self, resource: Resource, wanted: Mapping[str, str], validate_only: bool
    ) -> None:
        self._check(resource, wanted)
        if validate_only:
            return
        with coordinating():
            await self._store(resource, wanted)

    async def _store(self, resource: Resource, wanted: Mapping[str, str]) -> None:
        log.info("config changed resource=%s keys=%s", resource, ",".join(sorted(wanted)) or "none")
        if resource.type == TOPIC:
            await self._write_topic(resource.name, wanted)
            return
        if resource.name:
            await self._write(paths.broker_entity(self._broker_id), wanted)
            self._per_broker = dict(wanted)
        else:
            await self._write(paths.broker_entity(None), wanted)
            self._cluster_default = dict(wanted)
        self._apply_dynamic()
        await self._tell_all()

    def _entity(self, resource: Resource) -> ConfigEntity:
        if resource.type == TOPIC:
            return paths.topic_entity(resource.name)
        return paths.broker_entity(self._broker_id if resource.name else None)

    def _check(self, resource: Resource, wanted: Mapping[str, str]) -> None:
        if resource.type == TOPIC:
            self._check_topic_values(resource.name, wanted)
            return
        try:
            self.broker.validate_dynamic_values(wanted, cluster_default=not resource.name)
        except ConfigError as e:
            raise BrokerError(ErrorCode.invalid_request, str(e)) from e

    def _check_topic_values(self, name: str, wanted: Mapping[str, str]) -> None:
        try:
            self.check_overrides(wanted)
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
        elif resource.name and _broker_id(resource.name, "Node") != self._broker_id:
            raise _refused(
                f"Unexpected broker id, expected {self._broker_id}, but received {resource.name}"
            )

    def _check_topic(self, name: str) -> None:
        if self._metadata.topic(name) is None:
            raise _no_topic(name)

    # -- the tree ------------------------------------------------------------

    async def _write_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Keep a topic's properties, unless it was deleted meanwhile: its node is not made anew."""
        entity = paths.topic_entity(name)
        try:
            await self._coordination.set(paths.config_path(entity), layout.encode_config(config))
        except NoNode:
            raise _no_topic(name) from None
        if self._metadata.topic(name) is not None:
            self.know_topic(name, config)
            self._topic_changed(name)
        await self._notify(entity)

    async def _write(self, entity: ConfigEntity, config: Mapping[str, str]) -> None:
        """Keep the properties, then tell all brokers to look, as Kafka's order is."""
        path, data = paths.config_path(entity), layout.encode_config(config)
        try:
            await self._coordination.create(path, data, make_parents=True)
        except NodeExists:
            await self._coordination.set(path, data)
        await self._notify(entity)

    async def _notify(self, entity: ConfigEntity) -> None:
        await self._coordination.create(
            paths.CONFIG_CHANGE, layout.encode_config_change(entity), sequential=True
        )
        told = await self._coordination.children(paths.CONFIG_CHANGES)
        if old := [f"{paths.CONFIG_CHANGES}/{name}" for name in told[:-NOTIFICATIONS_KEPT]]:
            with suppress(NoNode):  # another broker was faster
                await self._coordination.multi([DeleteNode(path) for path in old])


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
