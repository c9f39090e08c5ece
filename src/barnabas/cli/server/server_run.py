"""`barnabas server`: one broker in this process, until SIGTERM or Ctrl-C."""

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

from barnabas.base.errors import BarnabasError, ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.config.properties import read_properties
from barnabas.server.compose import start
from barnabas.server.requests import api_handlers
from barnabas.server.settings import metrics_address
from barnabas.znodes.tree import ZnodeError

log = logging.getLogger("barnabas.server")

_SLOW_S = 1.0
# After which what the start left out is loaded, and how long clients have the loop in between.
_LATER_S = 2.0
_PAUSE_S = 0.05
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
    """Run a broker; returns the exit code. Raises ConfigError for what was typed wrong."""
    properties = gather_properties(config, listen, data, node_id, zookeeper, overrides, metrics)
    broker_config = BrokerConfig.from_properties(properties)
    metrics_address(broker_config)  # so that a wrong one is told before anything begins
    _log_to_stderr()
    for warning in broker_config.warnings:
        log.warning("config %s", warning)
    if idle := broker_config.not_acted_on():
        log.warning("config accepted, but nothing acts on it yet: %s", ", ".join(idle))
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.run(_run(broker_config))
    return uvloop.run(_run(broker_config))


def _log_to_stderr() -> None:
    """One line per event, its time in UTC as everywhere else."""
    form = logging.Formatter(
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
    """What the file says, above it the options, above them the overrides."""
    properties: dict[str, str] = {}
    if config is not None:
        properties.update(read_properties(config))
    if listen is not None:
        properties["listeners"] = _listeners(listen)
    elif config is None:
        properties["listeners"] = "PLAINTEXT://127.0.0.1:9092"
    if data is not None:
        if data.exists() and not data.is_dir():
            raise ConfigError(f"--data {data}: this is a file, a folder is needed")
        if (data / "broker-0" / "server.properties").exists():
            raise ConfigError(
                f"{data} is the folder of a cluster; start one of its brokers"
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
    """The property for --listen; every interface if the host is left out, 0.0.0.0 or [::]."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.%]*\]|[^\[\]:/]*):(\d{1,5})", listen)
    if found is None:
        raise ConfigError(
            f"--listen {listen}: expected HOST:PORT, as in 127.0.0.1:9092, [::1]:9092 or :9092"
        )
    if int(found[2]) > 65535:
        raise ConfigError(f"--listen {listen}: there is no port {found[2]}, only 0 to 65535")
    host = "" if found[1] in ("0.0.0.0", "[::]", "*") else found[1]
    return f"PLAINTEXT://{host}:{found[2]}"


def _refuse_what_is_not_served(properties: Mapping[str, str]) -> None:
    """A broker must not look as if it were protected when it is not."""
    if properties.get("authorizer.class.name"):
        raise ConfigError(
            "authorizer.class.name is set, but authorization is not served yet: "
            "leave it out to run a broker that everybody may use"
        )
    for listener in properties.get("listeners", "").split(","):
        if listener.strip().startswith(("SSL://", "SASL_SSL://", "SASL_PLAINTEXT://")):
            raise ConfigError(
                f"listeners: {listener.strip()}: TLS and SASL are not served yet, only PLAINTEXT"
            )


def _raise_open_files_limit() -> None:
    """Take as many open files as the system allows: an active partition needs three."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS refuses "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _shown(listener: Listener) -> str:
    """Where it listens, in the form that a client's bootstrap takes."""
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{host or '0.0.0.0'}:{listener.port}"


def _told(error: Exception) -> str:
    """What kept the broker from starting, and what to do about it where that is known."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
        return f"{error}; stop who uses it, or choose another with --listen or --metrics"
    # The root is about the tree as a whole: its path tells nobody anything.
    return str(error).removeprefix("/: ") if isinstance(error, ZnodeError) else str(error)


def _tell_if_slow(config: BrokerConfig) -> asyncio.TimerHandle:
    """Whoever looks on shall know what a start may be waiting for; to be cancelled once it ends."""
    zookeeper = config.optional_str("zookeeper.connect")
    loop = asyncio.get_running_loop()
    what = f"for ZooKeeper at {zookeeper}, or " if zookeeper else ""
    return loop.call_later(_SLOW_S, log.info, "waiting %suntil the logs are loaded", what)


async def _load_the_rest() -> None:
    """Import what nobody asked for yet, bit by bit, so that few have to wait.

    The schema of an older version of a request is still read when the first of its kind comes.
    """
    await asyncio.sleep(_LATER_S)
    for module in api_handlers.LATE_MODULES:
        try:
            import_module(module)
        except (ImportError, OSError) as e:
            log.warning("not loaded module=%s why=%s", module, e)
        await asyncio.sleep(_PAUSE_S)
    gc.freeze()


async def _run(config: BrokerConfig) -> int:
    _raise_open_files_limit()
    # Compaction computes in a thread: the loop shall get its turn within a millisecond, not five.
    sys.setswitchinterval(0.001)
    waiting = _tell_if_slow(config)
    try:
        running = await start(config)
    except (BarnabasError, OSError) as e:
        print(f"barnabas: {_told(e)}", file=sys.stderr)
        return FAILED
    finally:
        waiting.cancel()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    running.failed.add_done_callback(lambda _: stop.set())
    # What start-up made stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    where = ", ".join(_shown(listener) for listener in running.endpoints)
    print(f"ready broker={running.broker.broker_id} listening on {where}", flush=True)
    loading = loop.create_task(_load_the_rest())
    await stop.wait()
    loading.cancel()
    log.info("stopping broker=%d", running.broker.broker_id)
    await running.stop()
    if running.failed.done():
        log.critical("stopped because of a failure: %s", running.failed.result())
        return FAILED
    log.info("stopped broker=%d", running.broker.broker_id)
    return STOPPED
