"""The end of a dead broker's ZooKeeper session, before the session timeout.

With the session go the broker's znode and, if it was the controller, /controller: the others see
both within milliseconds, and elect. `unregister` is for whoever saw the process die: the supervisor
of a cluster, a service manager, and the broker that starts again on the same log directory.
"""

import asyncio
import enum
from pathlib import Path
from typing import Any, Final

from kazoo.hosts import collect_hosts
from kazoo.protocol import serialization as requests

from barnabas.znodes.tree import ROOT, ConnectionLoss
from barnabas.znodes.zookeeper.session_file import NotProvenDead, SessionFile

CLOSED_WITHIN_S: Final = 5.0
_SERVER_ANSWERS_WITHIN_S: Final = 2.0
_RETRY_S: Final = 0.1
_LENGTH_BYTES: Final = 4
# A server gives an expired session this timeout, or one whose password is wrong.
_NO_TIMEOUT_MS: Final = 0
_ANY_TIMEOUT_MS: Final = 10_000
_SESSION_EXPIRED: Final = -112
# kazoo has no types.
_collect_hosts: Final[Any] = collect_hosts
_Connect: Final[Any] = requests.Connect


class Unregistered(enum.Enum):
    """The result of `unregister`; the words are for the operator."""

    NOTHING_TO_CLOSE = "no session is kept: the broker stopped cleanly, or never registered"
    EXPIRED = "the session has expired already"
    CLOSED = "session closed"


async def unregister(
    log_dir: Path, hosts: str | None = None, *, within_s: float = CLOSED_WITHIN_S
) -> Unregistered:
    """Close the session of the broker that died on this log directory.

    The servers are those that the broker used, or `hosts`. No effect on a living broker.

    Raises  NotProvenDead, if the broker may be alive
            CorruptSessionFile, OSError, if the file cannot be read
            ConnectionLoss, if no server answers in time; the session then ends by its timeout
    """
    file = SessionFile(log_dir)
    if not file.exists:
        return Unregistered.NOTHING_TO_CLOSE
    try:
        if not file.lock(create=False):
            raise NotProvenDead("a running process holds its lock")
    except FileNotFoundError:
        raise NotProvenDead("its lock file is missing") from None
    try:
        return await close_kept(file, hosts, within_s=within_s)
    finally:
        file.unlock()


async def close_kept(
    file: SessionFile, hosts: str | None = None, *, within_s: float = CLOSED_WITHIN_S
) -> Unregistered:
    """As `unregister`, for a caller that has the file's lock and keeps it."""
    kept = file.read()
    if kept is None:
        return Unregistered.NOTHING_TO_CLOSE
    file.prove_dead(kept)
    closed = await close_session(
        hosts or kept.hosts, kept.session_id, kept.password, within_s=within_s
    )
    file.remove()
    return Unregistered.CLOSED if closed else Unregistered.EXPIRED


async def close_session(hosts: str, session_id: int, password: bytes, *, within_s: float) -> bool:
    """Close any session; False if the servers do not know it, or its password is another.

    Raises  ConnectionLoss, if no server answers in time
    """
    addresses: list[tuple[str, int]] = _collect_hosts(hosts)[0]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    closing = _Closing(session_id, password)
    while True:
        for host, port in addresses:
            try:
                async with asyncio.timeout(min(_SERVER_ANSWERS_WITHIN_S, within_s)):
                    return await closing.at(host, port)
            except (OSError, EOFError, TimeoutError):
                continue  # another server may serve
        if loop.time() + _RETRY_S > deadline:
            raise ConnectionLoss(ROOT, f"no ZooKeeper server at {hosts} closed the session")
        await asyncio.sleep(_RETRY_S)


class _Closing:
    """The end of one session, on new connections until one gets the response."""

    def __init__(self, session_id: int, password: bytes) -> None:
        self._requests = (
            _Connect(0, 0, _ANY_TIMEOUT_MS, session_id, password, False).serialize(),
            requests.int_int_struct.pack(1, requests.Close.type),
        )
        self._continued = False

    async def at(self, host: str, port: int) -> bool:
        """Continue the session on a new connection, and close it there.

        Both are requested at once: a client that has the session loses its connection now, and
        takes the session back when it connects again.
        """
        reader, writer = await asyncio.open_connection(host, port)
        try:
            for request in self._requests:
                _send(writer, request)
            connected = _Connect.deserialize(await _receive(reader), 0)[0]
            if connected.time_out <= _NO_TIMEOUT_MS:
                return self._continued  # closed before, by a request whose response was lost
            self._continued = True
            header: Any = requests.reply_header_struct.unpack_from(await _receive(reader), 0)
            if header[2] == _SESSION_EXPIRED:
                return False
            if header[2]:
                raise ConnectionResetError(f"ZooKeeper error {header[2]}")
            return True
        finally:
            writer.close()


def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(len(message).to_bytes(_LENGTH_BYTES) + message)


async def _receive(reader: asyncio.StreamReader) -> bytes:
    """Raises EOFError."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(_LENGTH_BYTES)))
