"""The sections of the bench, run in order and printed one by one."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from rich.console import Console

from barnabas.base.errors import ConfigError, PeerGone
from barnabas.bench.bench_plan import Bench, BenchPlan
from barnabas.bench.bench_report import Section, show
from barnabas.bench.clusters.failover_bench import failover_section
from barnabas.bench.clusters.group_members import GroupFailed
from barnabas.bench.clusters.groups_bench import groups_section
from barnabas.bench.clusters.growth_bench import growth_section
from barnabas.bench.clusters.replication_bench import replication_section
from barnabas.bench.clusters.restart_bench import restart_section
from barnabas.bench.clusters.subscribed_bench import subscribed_section
from barnabas.bench.clusters.waiting import WaitTimedOut
from barnabas.bench.limits.clients_bench import RecordsMissing, clients_section
from barnabas.bench.limits.idle import idle_section
from barnabas.bench.limits.limits_section import raw_section
from barnabas.bench.limits.load_generator import LoadFailed
from barnabas.bench.limits.log_bench import WrongResult, log_section
from barnabas.bench.limits.native_build import NoCompiler
from barnabas.bench.limits.sessions_bench import sessions_section
from barnabas.bench.limits.throughput import fetch_section, latency_section, produce_section
from barnabas.bench.limits.timers_bench import timers_section
from barnabas.bench.server_processes import ServerFailed
from barnabas.bench.sink_bench import sinks_section
from barnabas.bench.spark_bench import spark_section
from barnabas.bench.tables_bench import tables_section
from barnabas.znodes.tree import ZnodeError

SECTIONS: Final[dict[str, Callable[[Bench], Section]]] = {
    "raw": raw_section,
    "produce": produce_section,
    "fetch": fetch_section,
    "sessions": sessions_section,
    "clients": clients_section,
    "latency": latency_section,
    "idle": idle_section,
    "subscribed": subscribed_section,
    "log": log_section,
    "timers": timers_section,
    "replication": replication_section,
    "failover": failover_section,
    "restart": restart_section,
    "growth": growth_section,
    "groups": groups_section,
    "spark": spark_section,
    "sinks": sinks_section,
    "tables": tables_section,
}
# Failures of a broker under test; any other exception is a bug of the bench.
FAILURES: Final = (
    GroupFailed,
    LoadFailed,
    WaitTimedOut,
    RecordsMissing,
    ServerFailed,
    WrongResult,
    KafkaException,
    PeerGone,
    ZnodeError,
    OSError,
)


@dataclass(frozen=True, slots=True)
class SectionResults:
    """The measured sections, and one line per failure."""

    sections: Sequence[Section]
    failures: Sequence[str]


def run(
    names: Sequence[str], plan: BenchPlan, folder: Path, console: Console, *, goals: bool = True
) -> SectionResults:
    """Run these sections with their data under `folder`; a failure does not stop the others.

    Without `goals` the figures are not judged.
    """
    sections: list[Section] = []
    failures: list[str] = []
    for name in names:
        try:
            with console.status(name) as status:
                # A status is shown on a terminal only; elsewhere a long run would say nothing.
                say = status.update if console.is_terminal else _said_on_stderr
                sections.append(SECTIONS[name](Bench(plan, folder, say)))
            show(console, sections[-1] if goals else sections[-1].without_goals())
        except NoCompiler as missing:
            console.print(f"{name}: skipped, {missing}; only the raw limits are shown\n")
        except ConfigError as missing:
            console.print(f"{name}: skipped, {missing}\n")
        except FAILURES as problem:
            failures.append(f"{name} failed: {str(problem) or type(problem).__name__}")
            console.print(failures[-1], *getattr(problem, "__notes__", ()), sep="\n", markup=False)
    return SectionResults(sections, failures)


def _said_on_stderr(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)
