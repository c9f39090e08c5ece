"""`barnabas unregister`: the end of a dead broker's ZooKeeper session, before its timeout."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused


def unregister(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="The broker's server.properties."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="The broker's first log directory."),
    ] = None,
) -> None:
    """Unregister a broker whose process died: its partitions get new leaders at once.

    Without this, ZooKeeper waits for zookeeper.session.timeout.ms. Closes the session that the
    broker keeps in its first log directory. Refuses if the broker may be alive, also if it is
    paused. Succeeds without effect after a clean stop.

    \b
    In the unit of a broker that systemd runs:
      ExecStart=/usr/bin/barnabas server --config /etc/barnabas/server.properties
      ExecStopPost=-/usr/bin/barnabas unregister --config /etc/barnabas/server.properties

    \b
    Example:
      barnabas unregister --data /var/lib/barnabas
    """
    if (config is None) == (data is None):
        raise Misused("specify either --config or --data")
    log_dir = data if data is not None else _log_dir(config)
    typer.echo(asyncio.run(_unregister(log_dir)), err=True)


def _log_dir(config: Path | None) -> Path:
    from barnabas.base.errors import ConfigError
    from barnabas.config.broker_config import BrokerConfig
    from barnabas.config.properties import read_properties

    assert config is not None
    try:
        return Path(BrokerConfig.from_properties(read_properties(config)).log_dirs()[0])
    except ConfigError as error:
        raise Misused(str(error)) from None


async def _unregister(log_dir: Path) -> str:
    """The result for the operator. Raises CommandFailed."""
    from barnabas.base.errors import BarnabasError
    from barnabas.znodes.zookeeper.dead_session import unregister as close_session
    from barnabas.znodes.zookeeper.session_file import SESSION_FILE

    try:
        return f"{log_dir}: {(await close_session(log_dir)).value}"
    except (BarnabasError, OSError) as error:
        detail = error.strerror if isinstance(error, OSError) else str(error).removeprefix("/: ")
        raise CommandFailed(f"{log_dir / SESSION_FILE}: not closed: {detail}") from None
