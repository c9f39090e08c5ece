"""The properties of topics and brokers: described, altered, kept in the coordination tree."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.base import topic_config
from barnabas.base.broker_config import BrokerConfig, broker_key
from barnabas.base.config import ConfigEntry, ConfigType
from barnabas.base.errors import BrokerError, ConfigError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.base.topic_config import TopicConfig
from barnabas.base.topic_config_keys import TOPIC_KEYS
from barnabas.server.metadata import MetadataCache
from barnabas.znodes import layout, paths
from barnabas.znodes.paths import ConfigEntity
from barnabas.znodes.tree import Coordination, NodeExists, NoNode

TOPIC: Final = 2
BROKER: Final = 4


class Resource(NamedTuple):
    """What is configured: a topic by name, a broker by id, all brokers by the empty name."""

    type: int
    name: str

    def __str__(self) -> str:
        kinds = {TOPIC: "TOPIC", BROKER: "BROKER"}
        return f"ConfigResource(type={kinds.get(self.type, self.type)}, name='{self.name}')"


class Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    name: str
    operation: Operation
    value: str | None


class Configs:
    """What is set, and what follows from it; whoever must act on a change is told of it."""

    def __init__(
        self,
        coordination: Coordination,
        broker_id: BrokerId,
        static: BrokerConfig,
        metadata: MetadataCache,
        topic_changed: Callable[[str], None],
    ) -> None:
        self._coordination = coordination
        self._broker_id = broker_id
        self._static = static
        self._metadata = metadata
        self._topic_changed = topic_changed
        self._topics: dict[str, dict[str, str]] = {}
        self._per_broker: dict[str, str] = {}
        self._cluster_default: dict[str, str] = {}
        self.broker = static

    async def load(self) -> None:
        """Read what was set before this broker started."""
        for name in await self._coordination.children(paths.TOPICS):
            self._topics[name] = await self._read(paths.topic_entity(name))
        self._per_broker = await self._read(paths.broker_entity(self._broker_id))
        self._cluster_default = await self._read(paths.broker_entity(None))
        self.broker = self._static.with_dynamic(self._per_broker, self._cluster_default)

    async def _read(self, entity: ConfigEntity) -> dict[str, str]:
        try:
            data, _ = await self._coordination.get(paths.config_path(entity))
        except NoNode:
            return {}
        return layout.decode_config(entity, data)

    # -- reading -------------------------------------------------------------

    def topic(self, name: str) -> TopicConfig:
        return topic_config.resolve(self._topics.get(name, {}), self.broker)

    def describe(self, resource: Resource) -> list[ConfigEntry]:
        """Raises BrokerError if there is no such topic or broker here."""
        self._check_exists(resource)
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

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)

    async def replace(
        self, resource: Resource, wanted: Mapping[str, str], *, validate_only: bool
    ) -> None:
        """Set these properties of `resource` and no others. Raises BrokerError, nothing changed."""
        self._check_exists(resource)
        self._check(resource, wanted)
        if validate_only:
            return
        if resource.type == TOPIC:
            await self._write(paths.topic_entity(resource.name), wanted)
            self.know_topic(resource.name, wanted)
            self._topic_changed(resource.name)
            return
        if resource.name:
            await self._write(paths.broker_entity(self._broker_id), wanted)
            self._per_broker = dict(wanted)
        else:
            await self._write(paths.broker_entity(None), wanted)
            self._cluster_default = dict(wanted)
        self.broker = self._static.with_dynamic(self._per_broker, self._cluster_default)
        for topic in self._metadata.topics():
            self._topic_changed(topic.name)

    async def alter(
        self, resource: Resource, alterations: Sequence[Alteration], *, validate_only: bool
    ) -> None:
        """Change single properties of `resource`. Raises BrokerError, nothing changed."""
        self._check_exists(resource)
        if len({a.name for a in alterations}) < len(alterations):
            raise BrokerError(ErrorCode.invalid_request, "Error due to duplicate config keys")
        wanted = dict(self._current(resource))
        for alteration in alterations:
            _apply(wanted, alteration, self._known_value(resource, alteration.name))
        await self.replace(resource, wanted, validate_only=validate_only)

    def _current(self, resource: Resource) -> Mapping[str, str]:
        if resource.type == TOPIC:
            return self._topics.get(resource.name, {})
        return self._per_broker if resource.name else self._cluster_default

    def _known_value(self, resource: Resource, name: str) -> str:
        """What a list property is before something is appended to it or subtracted from it."""
        entries = self.describe(resource)
        return next((entry.value or "" for entry in entries if entry.name == name), "")

    def _check(self, resource: Resource, wanted: Mapping[str, str]) -> None:
        if resource.type == TOPIC:
            self.check_overrides(wanted)
            return
        try:
            for name, value in wanted.items():
                self.broker.validate_dynamic(name, value, cluster_default=not resource.name)
        except ConfigError as e:
            raise BrokerError(
                ErrorCode.invalid_request, f"Invalid config value for resource {resource}: {e}"
            ) from e

    def _check_exists(self, resource: Resource) -> None:
        if resource.type == TOPIC:
            if self._metadata.topic(resource.name) is None:
                raise BrokerError(
                    ErrorCode.unknown_topic_or_partition,
                    f"The topic '{resource.name}' does not exist.",
                )
        elif resource.type == BROKER:
            if resource.name not in ("", str(self._broker_id)):
                raise BrokerError(
                    ErrorCode.invalid_request,
                    f"Unexpected broker id, expected {self._broker_id} or empty string, "
                    f"but received {resource.name}",
                )
        else:
            raise BrokerError(
                ErrorCode.invalid_request, f"Unsupported resource type {resource.type}."
            )

    # -- the tree ------------------------------------------------------------

    async def _write(self, entity: ConfigEntity, config: Mapping[str, str]) -> None:
        """Keep the properties, then tell all brokers to look, as Kafka's order is."""
        path, data = paths.config_path(entity), layout.encode_config(config)
        try:
            await self._coordination.create(path, data, make_parents=True)
        except NodeExists:
            await self._coordination.set(path, data)
        await self._coordination.create(
            paths.CONFIG_CHANGE, layout.encode_config_change(entity), sequential=True
        )


def _apply(wanted: dict[str, str], alteration: Alteration, before: str) -> None:
    name, operation, value = alteration
    if operation is Operation.DELETE:
        wanted.pop(name, None)
        return
    assert value is not None
    if operation is Operation.SET:
        wanted[name] = value
        return
    key = TOPIC_KEYS.get(name) or broker_key(name)
    if key is None or key.type is not ConfigType.LIST:
        raise BrokerError(
            ErrorCode.invalid_config,
            f"Config value {operation.name.lower()} is not allowed for config key: {name}",
        )
    items = [item for item in before.split(",") if item]
    changed = [item.strip() for item in value.split(",")]
    if operation is Operation.APPEND:
        items += [item for item in changed if item not in items]
    else:
        items = [item for item in items if item not in changed]
    wanted[name] = ",".join(items)
