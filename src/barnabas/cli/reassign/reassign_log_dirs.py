"""Replicas that a plan puts into certain log directories: started and watched broker by broker."""

import asyncio
import sys
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.cli.admin.admin_requests import PartitionOutcome, alter_log_dirs, replica_log_dirs
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.cli.reassign.reassign_plan import LogDirs
from barnabas.cli.show import counted

_LOOK_EVERY_S: Final = 0.5


async def start_moves(client: RawClient, wanted: LogDirs) -> list[PartitionOutcome]:
    """Start the moves between log directories; return those that brokers refused.

    A broker without a replica of the partition creates it in that log directory later.
    """
    outcomes = []
    for broker, log_dirs in sorted(wanted.items()):
        outcomes += await alter_log_dirs(client, broker, log_dirs)
    passing = (ErrorCode.none, ErrorCode.replica_not_available)
    return [each for each in outcomes if each.code not in passing]


async def watch_moves(client: RawClient, wanted: LogDirs, timeout_s: float | None) -> int:
    """Return the number of replicas when all are in their log directories.

    Raises  CommandFailed after `timeout_s`; the moves continue
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    last = -1
    while left := await _left(client, wanted):
        if left != last:
            print(f"{counted(left, 'replica')} to move to its log directory", file=sys.stderr)
        last = left
        if deadline is not None and loop.time() >= deadline:
            raise CommandFailed(f"{counted(left, 'move')} still in progress after {timeout_s:g} s")
        await asyncio.sleep(_LOOK_EVERY_S)
    return sum(map(len, wanted.values()))


async def _left(client: RawClient, wanted: LogDirs) -> int:
    """The number of replicas that are not in their log directories yet."""
    left = 0
    for broker, log_dirs in wanted.items():
        now = await replica_log_dirs(client, broker, log_dirs)
        left += sum(now.get(partition) != log_dir for partition, log_dir in log_dirs.items())
    return left
