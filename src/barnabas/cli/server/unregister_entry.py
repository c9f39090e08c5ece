"""The entry point of `barnabas unregister`, which does without typer for a plain command line.

A cluster has no leader for the dead broker's partitions while this command starts.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.cli.exit_codes import OK, CommandFailed, Misused

# As OPTIONS in server_entry; `unregister_command` declares the same.
UNREGISTER_OPTIONS: Final[Mapping[str, tuple[str, type]]] = {
    "--config": ("config", Path),
    "-c": ("config", Path),
    "--data": ("data", Path),
    "-d": ("data", Path),
}


def unregister(config: Path | None = None, data: Path | None = None) -> int:
    """Unregister a dead broker and print the result. Raises CommandFailed, Misused."""
    if data is not None and config is None:
        log_dir = data
    elif config is not None and data is None:
        log_dir = _log_dir(config)
    else:
        raise Misused("specify either --config or --data")
    import asyncio

    print(asyncio.run(_unregister(log_dir)), file=sys.stderr)
    return OK


def _log_dir(config: Path) -> Path:
    from barnabas.base.errors import ConfigError
    from barnabas.config.broker_config import BrokerConfig
    from barnabas.config.properties import read_properties

    try:
        return Path(BrokerConfig.from_properties(read_properties(config)).log_dirs()[0])
    except ConfigError as error:
        raise Misused(str(error)) from None


async def _unregister(log_dir: Path) -> str:
    """The result for the operator. Raises CommandFailed."""
    from barnabas.base.errors import BarnabasError
    from barnabas.znodes.zookeeper import dead_session
    from barnabas.znodes.zookeeper.session_file import SESSION_FILE

    try:
        return f"{log_dir}: {(await dead_session.unregister(log_dir)).value}"
    except (BarnabasError, OSError) as error:
        detail = error.strerror if isinstance(error, OSError) else str(error).removeprefix("/: ")
        raise CommandFailed(f"{log_dir / SESSION_FILE}: not closed: {detail}") from None
