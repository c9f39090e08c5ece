"""Sessions of dead brokers, closed at a real ZooKeeper; those of living ones are left alone."""

import asyncio
import struct
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.base.ports import free_port
from barnabas.znodes.tree import ConnectionLoss, SessionState
from barnabas.znodes.zookeeper.dead_session import Unregistered, close_session, unregister
from barnabas.znodes.zookeeper.session_file import (
    LOCK_FILE,
    SESSION_FILE,
    CorruptSessionFile,
    NotProvenDead,
    Process,
    SessionFile,
    this_process,
)
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from barnabas.znodes.zookeeper.zookeeper_tree import ZooKeeperSession, connect
from tests.znodes.contract import Heard
from tests.znodes.timeouts import PATIENT


def dead_process() -> Process:
    me = this_process()
    assert me is not None
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return me._replace(pid=process.pid)


class Broker:
    """A session with an ephemeral znode, kept in a log directory."""

    def __init__(self, session: ZooKeeperSession, file: SessionFile) -> None:
        self.session = session
        self.states = Heard[SessionState]()
        self.file = file
        session.listen(self.states)

    @classmethod
    async def start(cls, address: str, log_dir: Path, process: Process) -> "Broker":
        session = await connect(address, **PATIENT)
        file = SessionFile(log_dir)
        assert file.lock(create=True)

        def keep(session_id: int, password: bytes) -> None:
            file.write(session.hosts, session_id, password, process)

        session.keep(keep)
        await session.create("/broker", ephemeral=True)
        return cls(session, file)


Scenario = Callable[[Broker, ZooKeeperSession], Awaitable[None]]


def run(address: str, log_dir: Path, scenario: Scenario, process: Process | None = None) -> None:
    """Run with a broker, by default of a dead process, and another session on the same tree."""

    async def all_of_it() -> None:
        broker = await Broker.start(address, log_dir, process or dead_process())
        other = await connect(address, **PATIENT)
        try:
            await scenario(broker, other)
        finally:
            await other.close()
            await broker.session.close()
            broker.file.unlock()

    asyncio.run(all_of_it())


def test_the_session_of_a_dead_broker_is_closed_with_its_znodes(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        broker.file.unlock()
        assert await other.exists("/broker") is not None
        assert await unregister(tmp_path) is Unregistered.CLOSED
        assert await other.exists("/broker") is None
        assert other.state is SessionState.CONNECTED
        assert not (tmp_path / SESSION_FILE).exists()
        assert await unregister(tmp_path) is Unregistered.NOTHING_TO_CLOSE

    run(zookeeper_chroot, tmp_path, scenario)


def test_a_session_that_expired_before_is_closed_without_effect(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        await broker.session.close()
        broker.file.unlock()
        assert await unregister(tmp_path) is Unregistered.EXPIRED
        assert not (tmp_path / SESSION_FILE).exists()

    run(zookeeper_chroot, tmp_path, scenario)


def test_a_renewed_session_is_kept_before_anything_is_written_in_it(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        first = broker.file.read()
        assert first is not None
        assert await close_session(first.hosts, first.session_id, first.password, within_s=10)
        await broker.states.until(SessionState.EXPIRED)
        await broker.session.renew()
        second = broker.file.read()
        assert second is not None
        assert second.session_id == broker.session.session_id != first.session_id
        await broker.session.create("/broker", ephemeral=True)
        broker.file.unlock()
        assert await unregister(tmp_path) is Unregistered.CLOSED
        assert await other.exists("/broker") is None

    run(zookeeper_chroot, tmp_path, scenario)


def test_a_held_lock_protects_the_session_whatever_the_file_says(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        with pytest.raises(NotProvenDead, match="holds its lock"):
            await unregister(tmp_path)
        assert await other.exists("/broker") is not None

    run(zookeeper_chroot, tmp_path, scenario)


def test_a_living_process_protects_its_session_without_a_lock(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        broker.file.unlock()
        with pytest.raises(NotProvenDead, match="is running"):
            await unregister(tmp_path)
        (tmp_path / LOCK_FILE).unlink()
        with pytest.raises(NotProvenDead, match="lock file is missing"):
            await unregister(tmp_path)
        assert await other.exists("/broker") is not None

    run(zookeeper_chroot, tmp_path, scenario, this_process())


def test_a_session_file_of_another_broker_closes_nothing(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        broker.file.unlock()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / SESSION_FILE).write_bytes((tmp_path / SESSION_FILE).read_bytes())
        (elsewhere / LOCK_FILE).touch()
        with pytest.raises(NotProvenDead, match="a copy"):
            await unregister(elsewhere)
        assert await other.exists("/broker") is not None

    run(zookeeper_chroot, tmp_path, scenario)


def test_another_zookeeper_does_not_know_the_session(
    zookeeper_chroot: str, tmp_path: Path, fresh_zookeeper: Callable[[], ZooKeeperServer]
) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        broker.file.unlock()
        assert await unregister(tmp_path, fresh_zookeeper().address) is Unregistered.EXPIRED
        assert await other.exists("/broker") is not None

    run(zookeeper_chroot, tmp_path, scenario)


def test_a_wrong_password_closes_nothing(zookeeper_chroot: str, tmp_path: Path) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        hosts, session_id = broker.session.hosts, broker.session.session_id
        assert not await close_session(hosts, session_id, bytes(16), within_s=10)
        assert await other.exists("/broker") is not None

    run(zookeeper_chroot, tmp_path, scenario)


def test_two_supervisors_at_once_close_one_session(zookeeper_chroot: str, tmp_path: Path) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        broker.file.unlock()
        results = await asyncio.gather(
            unregister(tmp_path), unregister(tmp_path), return_exceptions=True
        )
        assert Unregistered.CLOSED in results
        (second,) = (each for each in results if each is not Unregistered.CLOSED)
        assert isinstance(second, NotProvenDead)
        assert await other.exists("/broker") is None
        assert other.state is SessionState.CONNECTED

    run(zookeeper_chroot, tmp_path, scenario)


def test_the_next_server_is_asked_if_one_is_down(zookeeper_chroot: str, tmp_path: Path) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        broker.file.unlock()
        hosts = f"127.0.0.1:{free_port()},{broker.session.hosts}"
        assert await unregister(tmp_path, hosts) is Unregistered.CLOSED

    run(zookeeper_chroot, tmp_path, scenario)


def test_without_any_server_the_session_stays_kept(zookeeper_chroot: str, tmp_path: Path) -> None:
    async def scenario(broker: Broker, other: ZooKeeperSession) -> None:
        broker.file.unlock()
        with pytest.raises(ConnectionLoss):
            await unregister(tmp_path, f"127.0.0.1:{free_port()}", within_s=0.3)
        assert await unregister(tmp_path) is Unregistered.CLOSED

    run(zookeeper_chroot, tmp_path, scenario)


def test_corrupt_and_unreadable_files_close_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    (tmp_path / SESSION_FILE).write_bytes(b"\x00\xff")
    with pytest.raises(CorruptSessionFile):
        asyncio.run(unregister(tmp_path))
    (tmp_path / SESSION_FILE).unlink()
    (tmp_path / SESSION_FILE).mkdir()
    with pytest.raises(OSError, match="directory"):
        asyncio.run(unregister(tmp_path))


def test_a_session_is_closed_although_its_client_takes_it_back_before_the_response() -> None:
    """The server has both requests at once, and closes the connection after the first response."""
    timeouts_ms = [6_000, 0]  # of the session as it is continued, and when it is gone

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in ("Connect", "Close"):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        answer = struct.pack(">iiqi16s?", 0, timeouts_ms.pop(0), 7, 16, bytes(16), False)
        writer.write(len(answer).to_bytes(4) + answer)
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            assert await close_session(f"{host}:{port}", 7, bytes(16), within_s=60)
        assert timeouts_ms == []

    asyncio.run(scenario())
