"""`barnabas unregister`: its options for typer."""

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.server import unregister_entry as entry


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
    raise typer.Exit(entry.unregister(config, data))
