"""One broker in this process, until SIGTERM or Ctrl-C: configs, logging, signals."""

import asyncio
import contextlib
import errno
import gc
import logging
import re
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from barnabas.base.errors import BarnabasError, ConfigError
from barnabas.base.ports import bind_and_close
from barnabas.cli.server.garbage_collection import collect_from_now_on
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.config.properties import read_properties
from barnabas.server.compose import start
from barnabas.server.requests import api_handlers
from barnabas.server.settings import check_listeners, check_security, metrics_address, warn_if_open
from barnabas.znodes.tree import ZnodeError

log = logging.getLogger("barnabas.server")

_SLOW_S = 1.0
# Lazy modules are loaded after this time, with pauses in which the loop serves clients.
_LATER_S = 2.0
# The longest that a start runs without the garbage collector.
_COLLECTS_WITHIN_S = 10.0
_PAUSE_S = 0.05
# The number of open files that every macOS grants; a process begins with 256 there.
_OPEN_MAX: Final = 10_240
STOPPED = 0
FAILED = 1


def server(
    config: Path | None,
    listen: str | None,
    data: Path | None,
    node_id: int | None,
    zookeeper: str | None,
    overrides: Sequence[str],
    metrics: str | None = None,
) -> int:
    """Run a broker; return the exit code. Raises ConfigError for an invalid config."""
    properties = gather_properties(config, listen, data, node_id, zookeeper, overrides, metrics)
    broker_config = BrokerConfig.from_properties(properties)
    check_security(broker_config)
    check_listeners(broker_config)
    metrics_address(broker_config)  # raises ConfigError before anything starts
    _log_to_stderr()
    for warning in broker_config.warnings:
        log.warning("config %s", warning)
    warn_if_open(broker_config)
    if idle := broker_config.not_acted_on():
        log.warning("configs without effect yet: %s", ", ".join(idle))
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.run(_run(broker_config))
    return uvloop.run(_run(broker_config))


class OneLine(logging.Formatter):
    """Escapes line ends and control characters: names that clients send forge no line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def _log_to_stderr() -> None:
    """Log one line per event, with UTC timestamps."""
    form = OneLine(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    form.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(form)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def gather_properties(
    config: Path | None,
    listen: str | None,
    data: Path | None,
    node_id: int | None,
    zookeeper: str | None,
    overrides: Sequence[str],
    metrics: str | None = None,
) -> dict[str, str]:
    """The file's configs, overridden by the options, overridden by --override."""
    properties: dict[str, str] = {}
    if config is not None:
        properties.update(read_properties(config))
    if listen is not None:
        properties["listeners"] = _listeners(listen)
    elif config is None:
        properties["listeners"] = "PLAINTEXT://127.0.0.1:9092"
    if data is not None:
        if data.exists() and not data.is_dir():
            raise ConfigError(f"--data {data}: not a directory")
        if (data / "broker-0" / "server.properties").exists():
            raise ConfigError(
                f"{data} is the directory of a cluster; start one of its brokers"
                f" with --config {data}/broker-N/server.properties"
            )
        properties["log.dirs"] = str(data)
    elif config is None:
        properties["log.dirs"] = "barnabas-data"
    if node_id is not None:
        properties["broker.id"] = str(node_id)
    if zookeeper is not None:
        properties["zookeeper.connect"] = zookeeper
    if metrics is not None:
        properties["barnabas.metrics.listener"] = metrics
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--override {override}: expected key=value")
        properties[name.strip()] = value.strip()
    alone = not properties.get("zookeeper.connect")
    if alone and "broker.id" not in properties and "node.id" not in properties:
        properties["broker.id"] = "0"
    _refuse_what_is_not_served(properties)
    return properties


def _listeners(listen: str) -> str:
    """The listeners config for --listen; no host, 0.0.0.0 and [::] mean every interface."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.%]*\]|[^\[\]:/]*):(\d{1,5})", listen)
    if found is None:
        raise ConfigError(
            f"--listen {listen}: expected HOST:PORT such as 127.0.0.1:9092, [::1]:9092 or :9092"
        )
    if int(found[2]) > 65535:
        raise ConfigError(f"--listen {listen}: port {found[2]} is out of range 0 to 65535")
    host = "" if found[1] in ("0.0.0.0", "[::]", "*") else found[1]
    return f"PLAINTEXT://{host}:{found[2]}"


def _refuse_what_is_not_served(properties: Mapping[str, str]) -> None:
    """Raises ConfigError for KRaft."""
    if "process.roles" in properties:
        raise ConfigError(
            "process.roles: KRaft is not supported; remove it, and set zookeeper.connect for a"
            " cluster or nothing for a single broker"
        )


def _raise_open_files_limit() -> None:
    """Raise the open files limit to its maximum: an active partition needs three files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS reports "unlimited" and refuses it
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(_OPEN_MAX, hard)), hard))


def _check_ports(config: BrokerConfig) -> None:
    """Raises ConfigError if a port is taken, before anything is written to disk."""
    for listener in (each for each in config.listeners() if each.port):
        try:
            bind_and_close(listener.host, listener.port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(f"cannot listen on {listener}: address already in use") from error


def _shown(listener: Listener) -> str:
    """The address as a client's bootstrap server."""
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{host or '0.0.0.0'}:{listener.port}"


def _explain(error: Exception) -> str:
    """Why the broker did not start, with a remedy where one is known."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
        return f"{error}; stop that process, or use another port with --listen or --metrics"
    if isinstance(cause, OSError) and cause.errno == errno.EADDRNOTAVAIL:
        return f"{error}; no interface of this machine has it: listen on another, or on :PORT"
    # An error of the root is one of the whole tree: leave out its path.
    return str(error).removeprefix("/: ") if isinstance(error, ZnodeError) else str(error)


def _log_if_slow(config: BrokerConfig) -> asyncio.TimerHandle:
    """Log what a slow start waits for, unless the returned timer is cancelled before."""
    zookeeper = config.optional_str("zookeeper.connect")
    loop = asyncio.get_running_loop()
    what = f"ZooKeeper at {zookeeper} or " if zookeeper else ""
    return loop.call_later(_SLOW_S, log.info, "waiting for %slog loading", what)


async def _load_the_rest() -> None:
    """Import the remaining modules one by one, so that no request waits long.

    The schema of an older request version is still loaded with the first such request.
    """
    await asyncio.sleep(_LATER_S)
    for module in api_handlers.LATE_MODULES:
        try:
            import_module(module)
        except (ImportError, OSError) as e:
            log.warning("module not loaded module=%s error=%s", module, e)
        await asyncio.sleep(_PAUSE_S)
    gc.freeze()


async def _run(config: BrokerConfig) -> int:
    _raise_open_files_limit()
    # Compaction runs in a thread: the loop gets its turn within a millisecond, not five.
    sys.setswitchinterval(0.001)
    waiting = _log_if_slow(config)
    loop = asyncio.get_running_loop()
    # The objects of a start stay: to scan them again and again takes a fifth of the start with
    # 10,000 partitions. A start that waits for a controller serves clients and needs the collector.
    gc.disable()
    collecting = loop.call_later(_COLLECTS_WITHIN_S, collect_from_now_on)
    try:
        _check_ports(config)
        running = await start(config)
    except (BarnabasError, OSError) as e:
        print(f"barnabas: {_explain(e)}", file=sys.stderr)
        return FAILED
    finally:
        waiting.cancel()
        collecting.cancel()
        collect_from_now_on()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    running.failed.add_done_callback(lambda _: stop.set())
    where = ", ".join(_shown(listener) for listener in running.endpoints)
    print(f"ready broker={running.broker.broker_id} listening on {where}", flush=True)
    loading = loop.create_task(_load_the_rest())
    await stop.wait()
    loading.cancel()
    log.info("stopping broker=%d", running.broker.broker_id)
    await running.stop()
    if running.failed.done():
        log.critical("stopped after failure: %s", running.failed.result())
        return FAILED
    log.info("stopped broker=%d", running.broker.broker_id)
    return STOPPED
