"""The ZooKeeper server of a local cluster, when --zookeeper names no other."""

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.base.offload import Offload
from barnabas.cli.cluster.cluster_dir import ClusterDir
from barnabas.cli.cluster.cluster_security import ClusterSecurity
from barnabas.cli.exit_codes import CommandFailed
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer, java_command

_LOOK_EVERY_S: Final = 0.5


def check_zookeeper_installed(*, with_tls: bool) -> None:
    """Raises CommandFailed without Java or without the extra `spark`, whose jars it needs"""
    try:
        java_command(with_tls=with_tls)
    except ConfigError as error:
        raise _failure(error) from None


def _failure(error: ConfigError) -> CommandFailed:
    return CommandFailed(f"{error}, or use a running one with --zookeeper")


class ClusterZooKeeper:
    """One ZooKeeper server and its pid file, checked regularly.

    Blocking calls go to `offload`, which must run one call at a time: if `start` is cancelled,
    `stop` then runs after it and leaves no server running.
    """

    def __init__(
        self,
        directory: ClusterDir,
        offload: Offload,
        *,
        restart: bool,
        say: Callable[[str], None],
        security: ClusterSecurity | None = None,
    ) -> None:
        settings, options = ([], []) if security is None else security.of_zookeeper()
        self._server = ZooKeeperServer(directory.zookeeper, settings=settings, java_options=options)
        self._pid_file = directory.zookeeper_pid
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
        """Start the server and wait until it answers. Raises CommandFailed, nothing running."""
        await self._offload(self._begin)
        self._watch = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Stop the server and remove its pid file."""
        if self._watch is not None:
            self._watch.cancel()
        await self._offload(self._end)

    def _begin(self) -> None:
        try:
            self._server.start()
        except ConfigError as error:
            raise _failure(error) from None
        self._pid_file.write_text(f"{self._server.pid}\n")

    def _end(self) -> None:
        self._server.stop()
        self._pid_file.unlink(missing_ok=True)

    async def _look(self) -> None:
        """Report when the server dies: brokers keep serving, but the cluster cannot change."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if not self._server.is_running:
                self._say(f"ZooKeeper died; see {self._server.log_path}")
                await self._offload(self._end)
                if not self._restart:
                    self._say("no election or config change works without it: restart the cluster")
                    return
                await self._begin_again()

    async def _begin_again(self) -> None:
        try:
            await self._offload(self._begin)
        except CommandFailed as failure:  # the next check tries again
            self._say(str(failure))
        else:
            self._say(f"ZooKeeper (pid {self.pid}) is back")
