"""A local ZooKeeper server as a child process, for a cluster on one machine and for tests.

PySpark includes the classes, so nothing has to be downloaded. The server listens on
127.0.0.1 only, keeps its data, configuration and log in one directory, and can be
restarted on them after a stop or a crash.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.base.ports import free_port

HOST: Final = "127.0.0.1"
READY_WITHIN_S: Final = 30.0
STOPPED_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.02

_MAIN_CLASS: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
# Only the jars that the server loads, of hundreds: Java starts faster.
_JARS: Final = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
)
# More for a server with TLS.
_TLS_JARS: Final = (
    *(f"netty-{name}-[0-9]*.jar" for name in ("buffer", "codec", "codec-base", "common")),
    *(f"netty-{name}-[0-9]*.jar" for name in ("handler", "resolver", "transport")),
    *(f"netty-{name}-[0-9]*.jar" for name in ("transport-classes-epoll", "tcnative-classes")),
    "netty-transport-native-unix-common-[0-9]*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
)
# A small heap, and a fast start rather than peak performance.
_JAVA_OPTIONS: Final = (
    "-Xms32m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
)
# A short tick allows short session timeouts and expires sessions soon. All clients of this machine
# have the same address: their number is not limited.
_CONFIG: Final = """dataDir={folder}/data
clientPort={port}
clientPortAddress={host}
tickTime=200
minSessionTimeout=400
maxSessionTimeout=120000
maxClientCnxns=0
preAllocSize=1024
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr,mntr,dump,wchs,cons
"""
_LOGGING: Final = """rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c{1})%n
"""


class ZooKeeperServer:
    """One ZooKeeper server; it keeps its port and data over restarts.

    `launcher` is a command that wraps the Java command; `settings` are more lines of its
    configuration, `java_options` more of Java's.
    """

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        launcher: Sequence[str] = (),
        settings: Sequence[str] = (),
        java_options: Sequence[str] = (),
    ) -> None:
        self._settings = settings
        self._java_options = java_options
        self.folder = folder.absolute()
        self.log_path = self.folder / "zookeeper.log"
        self._port = port
        self._launcher = launcher
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """host:port for clients; the port is known after the first start."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and return when it serves; blocks for about half a second.

        Raises  ConfigError, nothing left running, if Java or PySpark is missing or the
                server does not start
        """
        assert self._process is None, "the server runs already"
        java = java_command(with_tls=bool(self._settings))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port(HOST)
        config, logging = self.folder / "zookeeper.cfg", self.folder / "log4j2.properties"
        text = _CONFIG.format(folder=self.folder, host=HOST, port=self._port)
        config.write_text("\n".join([text.rstrip(), *self._settings, ""]))
        logging.write_text(_LOGGING)
        logging_option = f"-Dlog4j2.configurationFile={logging}"
        command = [*self._launcher, *java, *self._java_options, logging_option]
        with self.log_path.open("ab") as output:
            # In its own process group, so that Ctrl-C reaches its clients first.
            self._process = subprocess.Popen(
                [*command, _MAIN_CLASS, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after a timeout; a no-op if the server does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: only what the server has acknowledged is on disk."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, requests get no response until `resume`."""
        self._running().send_signal(signal.SIGSTOP)
        wait_until_stopped(self.pid)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the server does not run"
        return self._process

    def _wait_until_ready(self) -> None:
        for _ in range(int(READY_WITHIN_S / _POLL_S)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running().wait(_POLL_S)
                break
            if serves_sessions(HOST, self._port):
                return
        self.kill()
        raise ConfigError(
            f"the ZooKeeper server on {self.address} did not start: see {self.log_path}"
        )

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        # A paused process handles no other signal until it continues.
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serves_sessions(host: str, port: int) -> bool:
    """True if the ZooKeeper server there serves sessions.

    `ruok` succeeds too early: a server that starts may neither serve nor close a connection that
    requests a session, and the client waits until its timeout.
    """
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.sendall(b"srvr")
            with connection.makefile("rb") as answer:
                return b"Mode: " in answer.read()
    except OSError:
        return False


def java_command(*, with_tls: bool) -> list[str]:
    """Java with ZooKeeper's classes; a class and its arguments follow.

    Raises  ConfigError if Java or PySpark is missing
    """
    jars = _jars((*_JARS, *_TLS_JARS) if with_tls else _JARS)
    return [_java(), *_JAVA_OPTIONS, "-cp", ":".join(jars)]


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if java is None:
        raise ConfigError("a ZooKeeper server needs Java: install version 17 or set JAVA_HOME")
    return java


def _jars(patterns: Sequence[str]) -> list[str]:
    # Find PySpark without importing it, which would take longer than starting the server.
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    found = [sorted(folder.glob(pattern)) for pattern in patterns] if folder else []
    if not found or not all(found):
        raise ConfigError(
            'a ZooKeeper server needs the jars of PySpark: run pip install "barnabas[spark]"'
        )
    return [str(versions[-1]) for versions in found]


def wait_until_stopped(pid: int) -> None:
    """Return when SIGSTOP has arrived at a child: until then it still responds."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    else:  # macOS before Python 3.13
        os.waitpid(pid, os.WUNTRACED)
