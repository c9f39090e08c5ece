"""`barnabas server`: one broker in this process, until SIGTERM or Ctrl-C."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from barnabas.base.broker_config import BrokerConfig
from barnabas.base.errors import BarnabasError, ConfigError
from barnabas.base.properties import read_properties
from barnabas.server.compose import start

log = logging.getLogger("barnabas.server")

STOPPED = 0
FAILED = 1


def server(
    config: Path | None,
    listen: str | None,
    data: Path | None,
    node_id: int | None,
    zookeeper: str | None,
    overrides: Sequence[str],
) -> int:
    """Run a broker; returns the exit code. Raises ConfigError for what was typed wrong."""
    properties = gather_properties(config, listen, data, node_id, zookeeper, overrides)
    broker_config = BrokerConfig.from_properties(properties)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    for warning in broker_config.warnings:
        log.warning("config %s", warning)
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.run(_run(broker_config))
    return uvloop.run(_run(broker_config))


def gather_properties(
    config: Path | None,
    listen: str | None,
    data: Path | None,
    node_id: int | None,
    zookeeper: str | None,
    overrides: Sequence[str],
) -> dict[str, str]:
    """What the file says, above it the options, above them the overrides."""
    properties: dict[str, str] = {}
    if config is not None:
        properties.update(read_properties(config))
    if listen is not None:
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdigit():
            raise ConfigError(f"--listen {listen}: expected HOST:PORT, as in 127.0.0.1:9092")
        properties["listeners"] = f"PLAINTEXT://{host}:{port}"
    elif config is None:
        properties["listeners"] = "PLAINTEXT://127.0.0.1:9092"
    if data is not None:
        properties["log.dirs"] = str(data)
    elif config is None:
        properties["log.dirs"] = "barnabas-data"
    if node_id is not None:
        properties["broker.id"] = str(node_id)
    if zookeeper is not None:
        properties["zookeeper.connect"] = zookeeper
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--override {override}: expected key=value")
        properties[name.strip()] = value.strip()
    if "broker.id" not in properties and "node.id" not in properties:
        properties["broker.id"] = "0"
    if "zookeeper.connect" in properties:
        raise ConfigError(
            "zookeeper.connect is set, but clusters are not served yet: "
            "leave it out to run one broker with its own coordination"
        )
    return properties


def _raise_open_files_limit() -> None:
    """Take as many open files as the system allows: an active partition needs three."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS refuses "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(config: BrokerConfig) -> int:
    _raise_open_files_limit()
    try:
        running = await start(config)
    except (BarnabasError, OSError) as e:
        print(f"barnabas: {e}", file=sys.stderr)
        return FAILED
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    running.failed.add_done_callback(lambda _: stop.set())
    # What start-up made stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    where = ", ".join(f"{listener.host or '*'}:{listener.port}" for listener in running.endpoints)
    print(f"ready broker={running.broker.broker_id} listening on {where}", flush=True)
    await stop.wait()
    log.info("stopping broker=%d", running.broker.broker_id)
    await running.stop()
    if running.failed.done():
        log.critical("stopped because of a failure: %s", running.failed.result())
        return FAILED
    log.info("stopped broker=%d", running.broker.broker_id)
    return STOPPED
