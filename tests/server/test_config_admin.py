"""Properties altered by two brokers at once: both changes stay, and no deleted topic returns."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.cluster.config_admin import BROKER, TOPIC, Alteration, Operation, Resource
from barnabas.znodes import layout, paths
from tests.server.raw import Insight, with_broker


class Interfering:
    """The tree, in which another broker does something after the next read of `path`."""

    def __init__(self, tree: Any, path: str, interfere: Any) -> None:
        self._tree = tree
        self._path = path
        self._interfere = interfere

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    async def get(self, path: str, *rest: Any) -> Any:
        try:
            return await self._tree.get(path, *rest)
        finally:
            if path == self._path and self._interfere is not None:
                interfere, self._interfere = self._interfere, None
                await interfere()


def setting(key: str, value: str) -> list[Alteration]:
    return [Alteration(key, Operation.SET, value)]


def test_two_brokers_that_alter_a_topic_at_once_do_not_undo_each_other(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        state, admin = broker.state, broker.running.broker.config_admin
        tree: Any = state.coordination
        path = paths.config_path(paths.topic_entity("t"))

        async def other() -> None:
            await tree.set(path, layout.encode_config({"segment.ms": "7"}))

        configs: Any = state.configs
        configs._coordination = Interfering(tree, path, other)
        await admin.alter(Resource(TOPIC, "t"), setting("retention.ms", "9"), validate_only=False)
        both = {"segment.ms": "7", "retention.ms": "9"}
        assert await state.configs.read(paths.topic_entity("t")) == both
        assert state.configs.topic("t").segment_ms == 7

    with_broker(tmp_path, scenario)


def test_two_changes_of_the_defaults_of_all_brokers_do_not_undo_each_other(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        state, admin = broker.state, broker.running.broker.config_admin
        tree: Any = state.coordination
        entity = paths.broker_entity(None)

        async def other() -> None:
            data = layout.encode_config({"log.retention.ms": "7"})
            await tree.create(paths.config_path(entity), data, make_parents=True)

        configs: Any = state.configs
        path = paths.config_path(entity)

        configs._coordination = Interfering(tree, path, other)
        await admin.alter(
            Resource(BROKER, ""), setting("max.connections", "99"), validate_only=False
        )
        assert await configs.read(entity) == {"log.retention.ms": "7", "max.connections": "99"}

    with_broker(tmp_path, scenario)


def test_a_topic_that_is_deleted_while_it_is_altered_gets_no_znode(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        state, admin = broker.state, broker.running.broker.config_admin
        tree: Any = state.coordination
        path = paths.config_path(paths.topic_entity("t"))

        async def other() -> None:
            await tree.delete(path)

        configs: Any = state.configs
        configs._coordination = Interfering(tree, path, other)
        topic = Resource(TOPIC, "t")
        with pytest.raises(BrokerError) as refused:
            await admin.alter(topic, setting("retention.ms", "9"), validate_only=False)
        assert refused.value.code is ErrorCode.unknown_topic_or_partition
        assert await tree.exists(path) is None

    with_broker(tmp_path, scenario)
