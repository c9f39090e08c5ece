"""The broker's ZooKeeper session on disk, for the process that sees the broker die."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.base.errors import BarnabasError
from barnabas.config.broker_config import BrokerConfig
from barnabas.znodes.tree import Coordination

if TYPE_CHECKING:
    from barnabas.znodes.zookeeper.session_file import SessionFile
    from barnabas.znodes.zookeeper.zookeeper_tree import ZooKeeperSession

log = logging.getLogger("barnabas.membership")

# Another process that closes the last session has the lock for a moment.
LOCKED_WITHIN_S: Final = 10.0
CLOSED_WITHIN_S: Final = 2.0
_LOOK_AGAIN_S: Final = 0.05


async def keep_session(
    config: BrokerConfig, coordination: Coordination, ending: AsyncExitStack
) -> None:
    """Close the session that a killed broker left in the first log directory; keep ours there.

    The caller has the lock of the log directory, and has not registered. A failure is logged: the
    others then wait for the session timeout of a dead broker, as they do without this. The embedded
    tree needs none of it: its sessions end with the process. Over TLS it is not done: decision 25.
    """
    if not config.optional_str("zookeeper.connect") or config.bool("zookeeper.ssl.client.enable"):
        return
    # Here, since a broker that is alone need not wait for a client of ZooKeeper to be loaded.
    from barnabas.znodes.zookeeper.session_file import SessionFile
    from barnabas.znodes.zookeeper.zookeeper_tree import ZooKeeperSession

    if not isinstance(coordination, ZooKeeperSession):
        return
    file = SessionFile(Path(config.log_dirs()[0]))
    try:
        if not config.bool("barnabas.unregister.enable"):
            file.remove()
        elif await _locked(file):
            ending.push_async_callback(_leave, coordination, file)
            await _close_last(file, coordination.hosts)
            _keep(file, coordination)
        else:
            log.warning("session not kept: %s is locked by another process", file.path)
    except OSError as error:
        log.warning("session not kept: %s", error)


async def _locked(file: "SessionFile") -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LOCKED_WITHIN_S
    while not file.lock(create=True):
        if loop.time() > deadline:
            return False
        await asyncio.sleep(_LOOK_AGAIN_S)
    return True


async def _close_last(file: "SessionFile", hosts: str) -> None:
    from barnabas.znodes.zookeeper.dead_session import Unregistered, close_kept

    try:
        result = await close_kept(file, hosts, within_s=CLOSED_WITHIN_S)
    except BarnabasError as error:
        log.warning("the last session in %s is not closed: %s", file.path, error)
    else:
        if result is not Unregistered.NOTHING_TO_CLOSE:
            log.info("last broker on this log directory was killed: %s", result.value)


def _keep(file: "SessionFile", session: "ZooKeeperSession") -> None:
    from barnabas.znodes.zookeeper.session_file import this_process

    process = this_process()
    if process is None:
        log.info("session not kept: this system does not identify processes")
        return

    def write(session_id: int, password: bytes) -> None:
        try:
            file.write(session.hosts, session_id, password, process)
        except OSError as error:
            log.warning("session not kept: %s", error)

    session.keep(write)


async def _leave(session: "ZooKeeperSession", file: "SessionFile") -> None:
    """Close the session; keep it no longer, unless it could not be closed."""
    await session.close()
    try:
        if session.is_closed:
            file.remove()
    except OSError as error:
        log.warning("%s is not removed: %s", file.path, error)
    finally:
        file.unlock()
