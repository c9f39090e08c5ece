"""The progress of a cluster's reassignments, printed until the last one is done."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.base.errors import PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import Moving, list_reassignments, replica_sizes
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.cli.show import counted, show_bytes
from barnabas.wire.schema import Message

_LOOK_EVERY_S: Final = 0.5


class ReassignmentProgress(NamedTuple):
    """Progress since each reassignment was first seen."""

    partitions: int
    partitions_done: int
    replicas: int  # to be added
    replicas_done: int
    bytes_copied: int  # of the replicas that are still being added
    bytes_to_copy: int

    @property
    def fraction(self) -> float:
        """The fraction of replicas done; one being copied counts by its bytes."""
        if not self.replicas:
            return self.partitions_done / self.partitions if self.partitions else 1.0
        waiting = self.replicas - self.replicas_done
        copied = min(1.0, self.bytes_copied / self.bytes_to_copy) if self.bytes_to_copy else 0.0
        return (self.replicas_done + waiting * copied) / self.replicas

    def __str__(self) -> str:
        words = [f"{self.partitions_done} of {counted(self.partitions, 'partition')} done"]
        if self.replicas:
            words.append(f"{self.replicas_done} of {counted(self.replicas, 'replica')} in sync")
        if self.bytes_to_copy:
            copied, whole = show_bytes(self.bytes_copied), show_bytes(self.bytes_to_copy)
            words.append(f"{copied} of {whole} copied")
        return ", ".join(words)


def measure(
    seen: Mapping[TopicPartition, Moving],
    now: Mapping[TopicPartition, Moving],
    in_sync: Mapping[TopicPartition, frozenset[int]],
    sizes: Mapping[tuple[TopicPartition, int], int],
    leaders: Mapping[TopicPartition, int],
) -> ReassignmentProgress:
    """The progress of all reassignments `seen`, of which `now` are still in progress."""
    replicas = done = copied = to_copy = 0
    for partition, moving in seen.items():
        for broker in moving.adding:
            replicas += 1
            if partition not in now or broker in in_sync.get(partition, ()):
                done += 1
                continue
            whole = sizes.get((partition, leaders.get(partition, -1)), 0)
            to_copy += whole
            copied += min(whole, sizes.get((partition, broker), 0))
    return ReassignmentProgress(len(seen), len(seen) - len(now), replicas, done, copied, to_copy)


async def watch(client: RawClient, timeout_s: float | None) -> int:
    """Print the progress until all are done; return the number of partitions.

    Raises  CommandFailed after `timeout_s`; the reassignments continue
    """
    seen: dict[TopicPartition, Moving] = {}
    loop = asyncio.get_running_loop()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    with _shown() as show:
        while now := await list_reassignments(client):
            for partition, moving in now.items():
                seen.setdefault(partition, moving)
            show(await progress_of(client, seen, now))
            if deadline is not None and loop.time() >= deadline:
                raise CommandFailed(
                    f"{counted(len(now), 'reassignment')} still in progress after {timeout_s:g} s;"
                    " watch again with `barnabas reassign watch`"
                )
            await asyncio.sleep(_LOOK_EVERY_S)
    return len(seen)


async def progress_of(
    client: RawClient, seen: Mapping[TopicPartition, Moving], now: Mapping[TopicPartition, Moving]
) -> ReassignmentProgress:
    topics = sorted({partition.topic for partition in now})
    partitions: dict[TopicPartition, Message] = {
        TopicPartition(topic.name, each.partition_index): each
        for topic in (await client.metadata(topics)).topics
        for each in topic.partitions
    }
    leaders = {partition: each.leader_id for partition, each in partitions.items()}
    in_sync = {partition: frozenset(each.isr_nodes) for partition, each in partitions.items()}
    return measure(seen, now, in_sync, await _sizes(client, now, leaders), leaders)


async def _sizes(
    client: RawClient, now: Mapping[TopicPartition, Moving], leaders: Mapping[TopicPartition, int]
) -> dict[tuple[TopicPartition, int], int]:
    """The size of each partition on its leader and its new replicas, as far as known."""
    wanted: dict[int, list[TopicPartition]] = {}
    for partition, moving in now.items():
        for broker in (leaders.get(partition, -1), *moving.adding):
            if broker >= 0:
                wanted.setdefault(broker, []).append(partition)
    sizes = {}
    for broker, partitions in sorted(wanted.items()):
        with contextlib.suppress(PeerGone):
            for partition, size in (await replica_sizes(client, broker, partitions)).items():
                sizes[partition, broker] = size
    return sizes


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[ReassignmentProgress], None]]:
    """A bar on a terminal; elsewhere one line on stderr per change."""
    if not sys.stderr.isatty():
        yield _ProgressLines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reassigning", total=1.0)
        yield lambda progress: bar.update(
            task, completed=progress.fraction, description=str(progress)
        )


class _ProgressLines:
    """Prints the progress when it has changed."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, progress: ReassignmentProgress) -> None:
        if str(progress) != self._last:
            self._last = str(progress)
            print(self._last, file=sys.stderr, flush=True)
