"""A broker's ZooKeeper session, kept in its log directory while the broker lives.

ZooKeeper waits for the session timeout of a dead process, unless somebody who has the session's
id and password closes it before. A broker therefore writes both to `zookeeper-session`, and holds
the lock of `zookeeper-session.lock` until its process ends. Whoever wants to close the session must
prove that the process is dead (`prove_dead`):

- The lock is free. The kernel releases it when the process ends, not when it is paused.
- It is the lock that the broker held, by device and inode: a copy of the directory has another.
- The file is of this boot of this machine. Otherwise nothing is known about the process.
- No running process has the recorded pid and start time.
"""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.base.errors import BarnabasError

SESSION_FILE: Final = "zookeeper-session"
LOCK_FILE: Final = "zookeeper-session.lock"
_VERSION: Final = 1
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# In /proc/PID/stat behind the name: the state, and the start time in ticks since the boot.
_STATE, _START_TIME = 0, 19
_DEAD: Final = ("Z", "X")


class NotProvenDead(BarnabasError):
    """The session may belong to a process that lives."""


class CorruptSessionFile(BarnabasError):
    """The file has not the contents that a broker writes."""


class Process(NamedTuple):
    """One process of one boot: pids are reused, this is not."""

    boot_id: str
    pid: int
    start_time: int


class LockIdentity(NamedTuple):
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session, the process that has it, and the lock that the process holds."""

    hosts: str
    session_id: int
    password: bytes = field(repr=False)
    process: Process
    lock: LockIdentity

    def encode(self) -> bytes:
        values = {
            "version": _VERSION,
            "zookeeper": self.hosts,
            "session": self.session_id,
            "password": self.password.hex(),
            **self.process._asdict(),
            **self.lock._asdict(),
        }
        return json.dumps(values).encode()

    @classmethod
    def decode(cls, data: bytes) -> "KeptSession":
        """Raises CorruptSessionFile."""
        try:
            values: dict[str, Any] = json.loads(data)
            if values["version"] != _VERSION:
                raise ValueError
            return cls(
                str(values["zookeeper"]),
                int(values["session"]),
                bytes.fromhex(values["password"]),
                Process(str(values["boot_id"]), int(values["pid"]), int(values["start_time"])),
                LockIdentity(int(values["device"]), int(values["inode"])),
            )
        except (ValueError, TypeError, KeyError):
            # Without the cause, which may quote the password.
            raise CorruptSessionFile("unknown contents") from None


def this_process() -> Process | None:
    """This process; None where /proc does not identify it."""
    boot_id, found = _boot_id(), _status("self")
    if boot_id is None or found is None:
        return None
    return Process(boot_id, os.getpid(), int(found[_START_TIME]))


def is_running(process: Process) -> bool:
    """True if that very process runs on this machine; a zombie does not."""
    found = _status(str(process.pid))
    return (
        found is not None
        and int(found[_START_TIME]) == process.start_time
        and found[_STATE] not in _DEAD
    )


def _boot_id() -> str | None:
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return None


def _status(pid: str) -> list[str] | None:
    with suppress(OSError):
        # The name may have spaces and brackets of its own.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return None


class SessionFile:
    """The session file of one log directory and its lock."""

    def __init__(self, log_dir: Path) -> None:
        self.path = log_dir / SESSION_FILE
        self._lock_path = log_dir / LOCK_FILE
        self._lock: int | None = None

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def lock(self, *, create: bool) -> bool:
        """Lock the file until `unlock`, or until the process ends; False if another has the lock.

        Raises  FileNotFoundError unless `create`; OSError
        """
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(self._lock_path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._lock = descriptor
        return True

    def unlock(self) -> None:
        """Release the lock; a no-op without it."""
        descriptor, self._lock = self._lock, None
        if descriptor is not None:
            os.close(descriptor)

    def read(self) -> KeptSession | None:
        """Raises CorruptSessionFile, OSError."""
        with suppress(FileNotFoundError):
            return KeptSession.decode(self.path.read_bytes())
        return None

    def write(self, hosts: str, session_id: int, password: bytes, process: Process) -> None:
        """Keep a session of this process, which has the lock, instead of the last one.

        Nobody else may read the file. It is not flushed: after a reboot it proves nothing.

        Raises  OSError, the file unchanged
        """
        kept = KeptSession(hosts, session_id, password, process, self._lock_identity())
        temporary = self.path.with_name(f"{SESSION_FILE}.tmp")
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(kept.encode())
        temporary.replace(self.path)

    def remove(self) -> None:
        """Keep no session. Raises OSError."""
        self.path.unlink(missing_ok=True)

    def prove_dead(self, kept: KeptSession) -> None:
        """Raises NotProvenDead unless the process that kept this session is dead.

        The caller has the lock, and has read `kept` while it had it.
        """
        if kept.lock != self._lock_identity():
            raise NotProvenDead("the log directory is a copy of another broker's")
        if kept.process.boot_id != _boot_id():
            raise NotProvenDead("it was written on another machine, or before a reboot")
        if is_running(kept.process):
            raise NotProvenDead(f"the broker is running (pid {kept.process.pid})")

    def _lock_identity(self) -> LockIdentity:
        assert self._lock is not None, "the caller has the lock"
        status = os.fstat(self._lock)
        return LockIdentity(status.st_dev, status.st_ino)
