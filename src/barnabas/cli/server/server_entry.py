"""Begins what `barnabas server` does: the broker's modules are loaded here, and not before."""

import gc
from collections.abc import Sequence
from pathlib import Path

from barnabas.cli.exit_codes import Misused


def serve(
    config: Path | None = None,
    listen: str | None = None,
    data: Path | None = None,
    node_id: int | None = None,
    zookeeper: str | None = None,
    metrics: str | None = None,
    override: Sequence[str] = (),
) -> int:
    """Run a broker; returns the exit code. Raises Misused."""
    # What a module makes stays: the collector need not look at it while there is ever more of it.
    gc.disable()
    from barnabas.base.errors import ConfigError
    from barnabas.cli.server.server_run import server

    gc.freeze()
    gc.enable()

    try:
        return server(config, listen, data, node_id, zookeeper, override, metrics)
    except ConfigError as error:
        raise Misused(str(error)) from None
