"""Notifications of changed properties, which brokers write below /config/changes."""

from barnabas.server.cluster.change_notifications import ChangeNotifications
from barnabas.server.cluster.config_admin import ConfigAdmin
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Coordination


class ConfigChanges(ChangeNotifications):
    """Watches /config/changes, and refreshes each entity in the order of the changes."""

    def __init__(self, coordination: Coordination, config_admin: ConfigAdmin) -> None:
        super().__init__(coordination, paths.CONFIG_CHANGES, _Refresh(config_admin))


class _Refresh:
    def __init__(self, config_admin: ConfigAdmin) -> None:
        self._config_admin = config_admin

    async def on_change(self, path: str, data: bytes, /) -> None:
        await self._config_admin.refresh(layout.decode_config_change(path, data))
