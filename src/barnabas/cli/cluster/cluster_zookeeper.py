"""The ZooKeeper server that a cluster on this machine runs for itself, when it is given none."""

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.base.offload import Offload
from barnabas.cli.cluster.cluster_dir import ClusterFolder
from barnabas.cli.exit_codes import CommandFailed
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer

_LOOK_EVERY_S: Final = 0.5


class ClusterZooKeeper:
    """One server, its pid file, and a look at whether it lives.

    All that blocks goes to `offload`, which must do one thing at a time: what was cancelled
    here while it began there is then ended by `stop`, not left running.
    """

    def __init__(
        self, folder: ClusterFolder, offload: Offload, *, restart: bool, say: Callable[[str], None]
    ) -> None:
        self._server = ZooKeeperServer(folder.zookeeper)
        self._pid_file = folder.zookeeper_pid
        self._offload = offload
        self._restart = restart
        self._say = say
        self._watch: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server.is_running else None

    async def start(self) -> None:
        """Return when it answers. Raises CommandFailed, nothing running, if it cannot."""
        await self._offload(self._begin)
        self._watch = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Nothing runs on return, and the pid file is gone."""
        if self._watch is not None:
            self._watch.cancel()
        await self._offload(self._end)

    def _begin(self) -> None:
        try:
            self._server.start()
        except ConfigError as error:
            raise CommandFailed(f"{error}; or name one that runs with --zookeeper") from None
        self._pid_file.write_text(f"{self._server.pid}\n")

    def _end(self) -> None:
        self._server.stop()
        self._pid_file.unlink(missing_ok=True)

    async def _look(self) -> None:
        """Brokers serve on for a while without it, but nothing can change: say so."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if not self._server.is_running:
                self._say(f"ZooKeeper has died, see {self._server.log_path}")
                await self._offload(self._end)
                if not self._restart:
                    self._say("nothing can change without it: stop the cluster and start it again")
                    return
                await self._begin_again()

    async def _begin_again(self) -> None:
        try:
            await self._offload(self._begin)
        except CommandFailed as failure:  # the next look finds it missing, and tries again
            self._say(str(failure))
        else:
            self._say(f"ZooKeeper (pid {self.pid}) is back")
