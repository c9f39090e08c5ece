"""The amount of work: a full run of a few minutes, and a smoke run of a few seconds."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

Say = Callable[[str], None]

# Five requests in flight is the default of Kafka's clients (max.in.flight.requests.per.connection).
CONNECTIONS: Final = 4
WINDOW: Final = 5


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """Limits of time and disk space: a run ends at `run_seconds` or at `run_bytes`."""

    repeat: int
    run_seconds: float
    run_bytes: int
    produce_sizes: tuple[int, ...]
    fetch_sizes: tuple[int, ...]
    fetch_log_bytes: int
    client_bytes: int
    latency_requests: int
    idle_seconds: float
    settle_seconds: float
    starts: int
    raw_bytes: int
    timers: int
    log_bytes: int
    recovered_bytes: int
    sparse_bytes: int
    sparse_segments: int
    look_ups: int
    partitions: int
    replicated_sizes: tuple[int, ...]
    replicated_bytes: int
    caught_up_bytes: int
    kills: int
    session_timeout_ms: int
    controlled_partitions: tuple[int, ...]
    group_sizes: tuple[int, ...]
    subscribed_partitions: tuple[int, ...]
    restarted_topics: int
    restarted_partitions: int  # of each of these topics
    restarted_records: int  # in each of these partitions
    growth_partitions: tuple[int, ...]
    table_rows: tuple[int, ...]  # the first number of them beside Spark's own connector


FULL: Final = BenchPlan(
    repeat=5,
    run_seconds=0.8,
    run_bytes=200_000_000,
    produce_sizes=(209, 1024, 16 * 1024, 128 * 1024, 1_000_000),
    fetch_sizes=(16 * 1024, 128 * 1024, 1_000_000),
    fetch_log_bytes=64_000_000,
    client_bytes=150_000_000,
    latency_requests=5_000,
    idle_seconds=5.0,
    settle_seconds=2.5,
    starts=5,
    raw_bytes=512_000_000,
    timers=1_000_000,
    log_bytes=128 * 1024 * 1024,
    recovered_bytes=192 * 1024 * 1024,
    sparse_bytes=10 * 1024**3,
    sparse_segments=10,
    look_ups=4_000,
    partitions=1_000,
    replicated_sizes=(1024, 16 * 1024, 128 * 1024),
    replicated_bytes=60_000_000,
    caught_up_bytes=200_000_000,
    kills=6,
    session_timeout_ms=6_000,
    controlled_partitions=(1, 1_000, 10_000),
    group_sizes=(3, 30, 100),
    subscribed_partitions=(10, 1_000, 10_000),
    restarted_topics=20,
    restarted_partitions=100,
    restarted_records=10,
    growth_partitions=(100, 1_000, 10_000),
    table_rows=(1_000_000, 10_000_000),
)

SMOKE: Final = BenchPlan(
    repeat=1,
    run_seconds=0.05,
    run_bytes=8_000_000,
    produce_sizes=(1024, 128 * 1024),
    fetch_sizes=(128 * 1024,),
    fetch_log_bytes=8_000_000,
    client_bytes=2_000_000,
    latency_requests=200,
    idle_seconds=0.3,
    settle_seconds=0.0,
    starts=1,
    raw_bytes=16_000_000,
    timers=10_000,
    log_bytes=8 * 1024 * 1024,
    recovered_bytes=8 * 1024 * 1024,
    sparse_bytes=64 * 1024 * 1024,
    sparse_segments=2,
    look_ups=200,
    partitions=20,
    replicated_sizes=(16 * 1024,),
    replicated_bytes=2_000_000,
    caught_up_bytes=2_000_000,
    kills=1,
    session_timeout_ms=3_000,
    controlled_partitions=(100,),
    group_sizes=(3, 30),
    subscribed_partitions=(10, 150),
    restarted_topics=2,
    restarted_partitions=6,
    restarted_records=2,
    growth_partitions=(30,),
    table_rows=(20_000,),
)


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of a section: the plan, a data directory, and a progress callback."""

    plan: BenchPlan
    folder: Path
    say: Say

    def rounds(self, name: str) -> Iterator[int]:
        """The round numbers; reports the progress of each."""
        for number in range(self.plan.repeat):
            self.say(f"{name}: round {number + 1} of {self.plan.repeat}")
            yield number

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new directory, removed after the block: the disk holds one run's data at most."""
        folder = Path(mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
