"""The session file: only a dead process's session may be closed, and the password stays secret."""

import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.znodes.zookeeper import session_file
from barnabas.znodes.zookeeper.session_file import (
    LOCK_FILE,
    SESSION_FILE,
    CorruptSessionFile,
    KeptSession,
    NotProvenDead,
    Process,
    SessionFile,
    is_running,
    this_process,
)
from tests.support.waiting import suspend

PASSWORD = b"a secret of 16 b"


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def identity(pid: int) -> Process:
    me = this_process()
    assert me is not None
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Process(me.boot_id, pid, int(fields[19]))


def kept_by(process: Process, log_dir: Path) -> tuple[SessionFile, KeptSession]:
    """The file of a broker; the test has its lock, as after the broker's death."""
    file = SessionFile(log_dir)
    assert file.lock(create=True)
    file.write("localhost:2181", 7, PASSWORD, process)
    kept = file.read()
    assert kept is not None
    return file, kept


def test_what_is_written_is_read(tmp_path: Path, child: "subprocess.Popen[bytes]") -> None:
    process = identity(child.pid)
    _, kept = kept_by(process, tmp_path)
    assert (kept.hosts, kept.session_id, kept.password) == ("localhost:2181", 7, PASSWORD)
    assert kept.process == process


def test_a_directory_without_a_session_has_none(tmp_path: Path) -> None:
    assert SessionFile(tmp_path).read() is None
    assert not SessionFile(tmp_path).exists


def test_nobody_else_may_read_the_file(tmp_path: Path, child: "subprocess.Popen[bytes]") -> None:
    before = os.umask(0)
    try:
        (tmp_path / f"{SESSION_FILE}.tmp").touch(0o666)  # left by a broker that died while it wrote
        kept_by(identity(child.pid), tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / SESSION_FILE).stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [SESSION_FILE, LOCK_FILE]


def test_the_password_is_in_no_repr(tmp_path: Path, child: "subprocess.Popen[bytes]") -> None:
    _, kept = kept_by(identity(child.pid), tmp_path)
    assert "secret" not in repr(kept)
    assert PASSWORD.hex() not in repr(kept)


def test_a_killed_process_is_proven_dead(tmp_path: Path, child: "subprocess.Popen[bytes]") -> None:
    file, kept = kept_by(identity(child.pid), tmp_path)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(kept.process), "a zombie does not run"
    file.prove_dead(kept)
    child.wait()
    file.prove_dead(kept)


def test_a_running_process_is_not_even_if_its_lock_is_free(
    tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    file, kept = kept_by(identity(child.pid), tmp_path)
    with pytest.raises(NotProvenDead, match=rf"is running \(pid {child.pid}\)"):
        file.prove_dead(kept)
    suspend(child.pid)
    with pytest.raises(NotProvenDead, match="is running"):
        file.prove_dead(kept)
    os.kill(child.pid, signal.SIGCONT)


def test_another_process_with_the_same_pid_is_not_the_broker(
    tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    living = identity(child.pid)
    file, kept = kept_by(living._replace(start_time=living.start_time - 1), tmp_path)
    file.prove_dead(kept)


def test_the_lock_belongs_to_one(tmp_path: Path) -> None:
    one, other = SessionFile(tmp_path), SessionFile(tmp_path)
    assert one.lock(create=True)
    assert not other.lock(create=True)
    one.unlock()
    assert other.lock(create=False)
    other.unlock()


def test_a_copied_log_directory_proves_nothing(
    tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    broker = tmp_path / "broker"
    broker.mkdir()
    kept_by(identity(child.pid), broker)
    child.kill()
    child.wait()
    copy = SessionFile(shutil.copytree(broker, tmp_path / "copy"))
    assert copy.lock(create=False)
    kept = copy.read()
    assert kept is not None
    with pytest.raises(NotProvenDead, match="a copy"):
        copy.prove_dead(kept)


def test_a_session_of_another_boot_proves_nothing(
    tmp_path: Path, child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    file, kept = kept_by(identity(child.pid), tmp_path)
    child.kill()
    child.wait()
    other = tmp_path / "boot_id"
    other.write_text("another\n")
    monkeypatch.setattr(session_file, "_BOOT_ID", other)
    with pytest.raises(NotProvenDead, match="another machine, or before a reboot"):
        file.prove_dead(kept)
    other.unlink()  # a system that has none
    assert this_process() is None
    with pytest.raises(NotProvenDead):
        file.prove_dead(kept)


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"version": 2}', '{"version": 1}'])
def test_a_corrupt_file_is_reported(tmp_path: Path, damage: str) -> None:
    (tmp_path / SESSION_FILE).write_text(damage)
    with pytest.raises(CorruptSessionFile):
        SessionFile(tmp_path).read()


def test_an_error_does_not_quote_the_password(
    tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    kept_by(identity(child.pid), tmp_path)
    path = tmp_path / SESSION_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "password": "secret"}))
    with pytest.raises(CorruptSessionFile) as raised:
        SessionFile(tmp_path).read()
    assert "secret" not in f"{raised.value!r}{raised.value.__cause__!r}"
    assert raised.value.__suppress_context__
