"""The properties in force, of topics and of this broker: a cache of the znodes below /config."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.base.errors import BrokerError, ConfigError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.config import topic_config
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.config_key import ConfigEntry
from barnabas.config.topic_config import TopicConfig
from barnabas.server.cluster.change_notifications import notify
from barnabas.server.cluster.encoded_passwords import EncodedPasswords
from barnabas.server.cluster.topic_names import is_topic_name
from barnabas.znodes import layout, paths
from barnabas.znodes.paths import ConfigEntity
from barnabas.znodes.tree import BadVersion, Coordination, MalformedZnode, NodeExists, NoNode

# How often a change is tried again that another one came between.
MOST_ATTEMPTS: Final = 10
log = logging.getLogger("barnabas.configs")


class Configs:
    """`broker` holds the properties of this broker; a dynamic change replaces it as a whole.

    Parts keep a reference to this object and read a property each time they need it.
    """

    def __init__(
        self,
        coordination: Coordination,
        broker_id: BrokerId,
        static: BrokerConfig,
        passwords: EncodedPasswords,
    ) -> None:
        self._coordination = coordination
        self._broker_id = broker_id
        self._static = static
        self._passwords = passwords
        self._topics: dict[str, dict[str, str]] = {}
        self._resolved: dict[str, TopicConfig] = {}
        self._per_broker: dict[str, str] = {}
        self._cluster_default: dict[str, str] = {}
        self.broker = static

    # -- the tree ------------------------------------------------------------

    async def load(self) -> None:
        """Read the properties of all topics and of this broker."""
        names = await self._coordination.children(paths.TOPICS)
        self._topics = dict(zip(names, await self._read_topics(names), strict=True))
        await self.load_broker()

    async def load_broker(self) -> None:
        """Read the dynamic properties of this broker, and the defaults of all brokers."""
        self._per_broker = await self.read(paths.broker_entity(self._broker_id))
        self._cluster_default = await self.read(paths.broker_entity(None))
        self._apply_dynamic()

    async def _read_topics(self, names: Sequence[str]) -> list[dict[str, str]]:
        return await asyncio.gather(*(self.read(paths.topic_entity(name)) for name in names))

    async def know_topics(self, names: Sequence[str]) -> None:
        """Read the properties of those topics that are not known yet: another broker created them.

        No topic has a name that could not be part of a path.
        """
        unknown = [n for n in names if n not in self._topics and is_topic_name(n)]
        for name, overrides in zip(unknown, await self._read_topics(unknown), strict=True):
            self.know_topic(name, overrides)

    async def read(self, entity: ConfigEntity) -> dict[str, str]:
        """The properties that the tree holds for an entity; none if they cannot be read."""
        return (await self._read(entity))[0]

    async def _read(self, entity: ConfigEntity) -> tuple[dict[str, str], int | None]:
        """The same, and the version of the znode; None without one."""
        try:
            data, stat = await self._coordination.get(paths.config_path(entity))
        except NoNode:
            return {}, None
        try:
            config = layout.decode_config(entity, data)
        except MalformedZnode as e:
            log.warning("ignoring unreadable configs: %s", e)
            return {}, stat.version
        if entity.startswith("brokers/"):
            config = self._passwords.decoded(config)
        return config, stat.version

    async def change(
        self,
        entity: ConfigEntity,
        change: Callable[[dict[str, str]], None],
        *,
        must_exist: bool = False,
    ) -> dict[str, str]:
        """Change the properties of an entity by compare-and-set, and announce it; returns them.

        Changes by several brokers never undo each other, nor do those of a user's credentials
        and quotas, which share a znode. `change` may be called several times.

        Raises  BrokerError, nothing changed: what `change` raises, or others change it, too
                NoNode, if there is no such entity and it must exist
                ConfigError, if a password cannot be encrypted
        """
        path = paths.config_path(entity)
        for _ in range(MOST_ATTEMPTS):
            config, version = await self._read(entity)
            if version is None and must_exist:
                raise NoNode(path)
            change(config)
            data = self._encoded(entity, config)
            try:
                if version is None:
                    await self._coordination.create(path, data, make_parents=True)
                else:
                    await self._coordination.set(path, data, version)
            except (BadVersion, NodeExists, NoNode):
                continue
            announced = layout.encode_config_change(entity)
            await notify(self._coordination, paths.CONFIG_CHANGE, announced)
            return config
        raise BrokerError(ErrorCode.unknown_server_error, f"Failed to update configs of {entity}")

    def _encoded(self, entity: ConfigEntity, config: Mapping[str, str]) -> bytes:
        if entity.startswith("brokers/"):
            config = self._passwords.encoded(config)
        return layout.encode_config(config)

    # -- topics --------------------------------------------------------------

    def topic(self, name: str) -> TopicConfig:
        """The properties of a topic: one object for all topics without overrides."""
        overrides = self._topics.get(name, {})
        known_as = name if overrides else ""
        if known_as not in self._resolved:
            self._resolved[known_as] = self._resolve(name, overrides)
        return self._resolved[known_as]

    def _resolve(self, name: str, overrides: Mapping[str, str]) -> TopicConfig:
        """The overrides in force; those that no topic can have are left out.

        Anybody can write to the tree, and a topic with a bad property is still served.
        """
        try:
            return topic_config.resolve(overrides, self.broker)
        except ConfigError as e:
            log.warning("ignoring invalid topic configs topic=%s why=%s", name, e)
        kept: dict[str, str] = {}
        for key, value in overrides.items():
            try:
                topic_config.resolve({**kept, key: value}, self.broker)
            except ConfigError:
                continue
            kept[key] = value
        return topic_config.resolve(kept, self.broker)

    def describe_topic(self, name: str) -> list[ConfigEntry]:
        return self.describe_overrides(self._topics.get(name, {}))

    def describe_overrides(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """The properties that a topic with these overrides has."""
        return topic_config.describe(overrides, self.broker)

    def check_overrides(self, overrides: Mapping[str, str]) -> None:
        """Raises BrokerError(invalid_config) if a topic cannot have these."""
        try:
            topic_config.validate_overrides(overrides, self.broker)
        except ConfigError as e:
            raise BrokerError(ErrorCode.invalid_config, str(e)) from e

    def has_topic(self, name: str) -> bool:
        return name in self._topics

    def know_topic(self, name: str, overrides: Mapping[str, str]) -> None:
        """Use these overrides of a topic, which the tree holds already."""
        self._topics[name] = dict(overrides)
        self._resolved.pop(name, None)

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)
        self._resolved.pop(name, None)

    # -- this broker ---------------------------------------------------------

    def _apply_dynamic(self) -> None:
        """Use the dynamic values, or none of them if they contradict the static ones."""
        try:
            self.broker = self._static.with_dynamic(self._per_broker, self._cluster_default)
        except ConfigError as e:
            log.warning("dynamic configuration not applied: %s", e)
            self.broker = self._static
        self._resolved.clear()
        for warning in self.broker.warnings[len(self._static.warnings) :]:
            log.warning("config %s", warning)
