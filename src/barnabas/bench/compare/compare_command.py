"""`barnabas bench compare`: Barnabas compared with Apache Kafka, or any two clusters."""

import shutil
import time
from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.bench.bench_options import FOLDER
from barnabas.bench.compare.signals import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from barnabas.bench.bench_plan import Say
    from barnabas.bench.compare.compare_cases import Case, Effort
    from barnabas.bench.compare.compare_clients import ClientRun
    from barnabas.bench.compare.compare_run import Comparison
    from barnabas.bench.compare.compare_sites import System
    from barnabas.bench.compare.kafka_release import ApacheKafka

RESULTS: Final = Path("bench/results")
NOTHING_WRITTEN: Final = (
    "Nothing is written: bench/results is for whole runs of all cases beside Apache Kafka,"
    " --results for others."
)
LATE: Final = "an idle thread wakes late, p99.9"
TOO_LATE_MS: Final = 3.0
TELLS_OF_THE_MACHINE: Final = "That is much: p99.9 latencies will reflect the machine."
MINUTES: Final = 40.0
MINUTES_WITH_CLIENTS: Final = 26.0
INTERRUPTED: Final = "Interrupted: the table shows the figures so far."
TOO_SOON: Final = "Interrupted before the first round was done: no figures."
ANSWERS_WITHIN_S: Final = 5.0
WIDTH: Final = 120  # of the table where nobody tells how wide a line may be
TOO_LONG_S: Final = 100.0  # for a run that is to be quick


def compare(
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(
            "--bootstrap",
            "--bootstrap-server",
            "-b",
            help="A running cluster; specify two to compare them.",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help="Cases with one of these words in their name or that of a row: produce, lz4,"
            " 100 B, latency, prepared, unbatched, rebalance, cost, cold, start, replicated,"
            " leader, controller; or transactions, which run by name alone."
        ),
    ] = "",
    clients: Annotated[
        str,
        typer.Option(
            help="Measure with these clients and their defaults, each in a process: all, or some"
            " of librdkafka, java, franz-go, kafkajs, aiokafka, kafka-python. The data takes 4 GB."
        ),
    ] = "",
    protocol: Annotated[
        str,
        typer.Option(help="Measure produce and consume over SSL or SASL_SSL.", metavar="PROTOCOL"),
    ] = "",
    full: Annotated[bool, typer.Option(help="All combinations of factors; takes hours.")] = False,
    quick: Annotated[bool, typer.Option(help="A short smoke run.")] = False,
    repeat: Annotated[int | None, typer.Option(min=1, help="Rounds per case; default: 6.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Time limit for starting rounds; default: 40, 26 with --clients, none with"
            " --full.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Where Markdown, JSON, PNG and HTML go; bench/results for all cases beside"
            " Apache Kafka, unless quick or interrupted, and nowhere for anything else."
        ),
    ] = None,
    folder: Annotated[Path | None, FOLDER] = None,
) -> None:
    """Measure Barnabas and Apache Kafka alternately with the same clients, and show ratios.

    Kafka is fetched from Maven Central once. If that fails, Barnabas is measured against the
    machine's limits only, in the sections nearest to the given cases.

    \b
    Examples:
      barnabas bench compare
      barnabas bench compare --only latency,start --repeat 7
      barnabas bench compare --protocol SASL_SSL
      barnabas bench compare --clients all
      barnabas bench compare --clients java,kafkajs --only consume
      barnabas bench compare --bootstrap one:9092 --bootstrap other:9092
    """
    if bootstrap and len(bootstrap) != 2:
        raise typer.BadParameter("specify --bootstrap twice or not at all")
    if clients and full:
        raise typer.BadParameter("--full cannot be used with --clients")
    protocol = _protocol(protocol, is_alone=not (clients or full or bootstrap))
    from rich.console import Console

    from barnabas.bench.bench_report import in_one_line
    from barnabas.bench.compare.compare_limits import against_limits
    from barnabas.bench.compare.compare_sites import elsewhere
    from barnabas.bench.compare.kafka_release import VERSION, Unavailable, find_kafka

    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    several = _several(clients)
    if not (minutes or full):
        minutes = MINUTES_WITH_CLIENTS if several else MINUTES
    effort = several.effort(quick, repeat, minutes) if several else _effort(quick, repeat, minutes)
    words = [word.strip().lower() for word in only.split(",") if word.strip()]
    chosen = partial(
        _cases, words, effort, protocol, bootstrap=bool(bootstrap), full=full, quick=quick
    )
    cases = chosen(several)
    if bootstrap:
        for address in bootstrap:
            _check_answers(address)
        ours, theirs = map(elsewhere, bootstrap)
    facts = _facts(bootstrap=bool(bootstrap))
    console.print(in_one_line(facts), highlight=False)
    if not bootstrap:
        with console.status(f"fetching Apache Kafka {VERSION}, unless cached"):
            found = find_kafka()
        if isinstance(found, Unavailable):
            why = f"Apache Kafka {VERSION} is not available ({found})"
            near = cases if words or several else []
            against_limits(console, why, near, results, quick, folder)
            return
        ours, theirs = _systems(found, protocol)
        facts["Apache Kafka"] = VERSION
    if several:
        facts |= several.find(console)
        cases = chosen(several)
    part = bool(
        bootstrap or only or protocol or full or quick or (several and not several.is_whole())
    )
    into = results or (None if part else RESULTS)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)  # fails now rather than after the run
    _run(console, ours, theirs, cases, effort, facts, several, folder, into, results, quick)


def _run(
    console: "Console",
    ours: "System",
    theirs: "System",
    cases: "list[Case]",
    effort: "Effort",
    facts: dict[str, str | int],
    several: "ClientRun | None",
    folder: Path | None,
    into: Path | None,
    results: Path | None,
    quick: bool,
) -> None:
    from barnabas.bench.compare.compare_cases import warm_up, warm_up_seconds
    from barnabas.bench.compare.compare_run import compare, expected_seconds

    expected_s = expected_seconds(cases, effort) + warm_up_seconds(cases, effort)
    console.print(_plan(len(cases), expected_s, effort), highlight=False)
    facts |= _held_up(console, quick)
    prepare = several.prepare if several else warm_up
    # Print the figures before a signal ends the command, even one that ended the run.
    with uninterrupted(), TemporaryDirectory(prefix="barnabas-compare-", dir=folder) as data:
        with progress(console) as say:
            outcome = compare(
                ours, theirs, cases, effort, Path(data), say, lambda site: prepare(site, effort)
            )
        into = results if outcome.interrupted else into
        _tell(console, outcome, facts, several, into=into, quick=quick)
        if several:
            several.clear()
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.failures:
        raise typer.Exit(1)


def _protocol(name: str, is_alone: bool) -> str:
    """Raises BadParameter."""
    from barnabas.bench.compare.compare_security import PROTOCOLS

    if name and name.upper() not in PROTOCOLS:
        raise typer.BadParameter(f"--protocol is {name!r}, must be one of {', '.join(PROTOCOLS)}")
    if name and not is_alone:
        raise typer.BadParameter("--protocol cannot be used with --bootstrap, --clients or --full")
    return name.upper()


def _systems(release: "ApacheKafka", protocol: str) -> "tuple[System, System]":
    from barnabas.bench.compare.compare_security import secured
    from barnabas.bench.compare.compare_sites import apache_kafka, barnabas

    theirs = partial(apache_kafka, release)
    if protocol:
        return secured(protocol, barnabas), secured(protocol, theirs)
    return barnabas(), theirs()


def _several(clients: str) -> "ClientRun | None":
    """Raises BadParameter for an unknown client."""
    if not clients:
        return None
    from barnabas.bench.compare.compare_clients import ClientRun

    try:
        return ClientRun(clients)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None


def _facts(*, bootstrap: bool) -> dict[str, str | int]:
    from confluent_kafka import libversion

    from barnabas.bench.bench_report import hot_path, machine, revision

    facts = {**machine(), "librdkafka": libversion()[0]}
    return facts if bootstrap else facts | {"Barnabas": revision(), "hot path": hot_path()}


def _tell(
    console: "Console",
    outcome: "Comparison",
    facts: dict[str, str | int],
    several: "ClientRun | None",
    *,
    into: Path | None,
    quick: bool,
) -> None:
    from barnabas.bench.compare import compare_show
    from barnabas.bench.compare.compare_limits import MEANINGLESS

    layout = several or compare_show
    if outcome.interrupted and not outcome.rows:
        console.print(TOO_SOON)
        return
    layout.show(console, outcome)
    if quick:
        console.print(MEANINGLESS)
        facts["effort"] = "too little to mean anything"
    if outcome.interrupted:
        console.print(INTERRUPTED)
        facts["interrupted"] = "yes"
    if into is None:
        console.print(NOTHING_WRITTEN, highlight=False)
        return
    written = layout.write(outcome, facts, into)
    if not any(path.suffix == ".png" for path in written):
        console.print(compare_show.NO_PICTURE)
    console.print("written: " + ", ".join(map(str, written)), highlight=False)


def _effort(quick: bool, repeat: int | None, minutes: float | None) -> "Effort":
    from barnabas.bench.compare.compare_cases import FULL_BYTES, Effort

    if quick:
        return Effort(repeat or 1, 4_000_000, 1.0, 500, 0.0, minutes)
    return Effort(repeat or 6, FULL_BYTES, 20.0, 50_000, 2.0, minutes)


def _plan(cases: int, seconds: float, effort: "Effort") -> str:
    most = f", {effort.minutes:.0f} at most" if effort.minutes else ""
    rounds = "one round" if effort.repeat == 1 else f"up to {effort.repeat} rounds"
    minutes = max(1, round(min(seconds / 60, effort.minutes or float("inf"))))
    about = f"about {minutes} min on two cores that have nothing else to do"
    return f"cases: {cases}, {rounds} each: {about}{most}"


def _held_up(console: "Console", quick: bool) -> dict[str, str]:
    """Print the machine's own wake-up latency before anything is measured."""
    from barnabas.bench.compare.compare_latency import idle_delay_ms

    late_ms = idle_delay_ms(1.0 if quick else 10.0)
    console.print(f"{LATE} {late_ms:.1f} ms", highlight=False)
    if late_ms > TOO_LATE_MS:
        console.print(TELLS_OF_THE_MACHINE, highlight=False)
    return {LATE: f"{late_ms:.1f} ms"}


@contextmanager
def progress(console: "Console") -> "Iterator[Say]":
    """Progress: one changing line on a terminal, one line per step elsewhere."""
    begun = time.perf_counter()
    if console.is_terminal:
        with console.status("starting both") as status:
            yield status.update
        return

    def say(text: str) -> None:
        console.print(f"{(time.perf_counter() - begun) / 60:5.1f} min  {text}", highlight=False)

    yield say


def _check_answers(bootstrap: str) -> None:
    """Raises CommandFailed, with one line, if no broker answers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from barnabas.bench.clusters.bench_topics import client_settings
    from barnabas.cli.exit_codes import CommandFailed

    try:
        AdminClient(client_settings(bootstrap)).list_topics(timeout=ANSWERS_WITHIN_S)
    except KafkaException:
        raise CommandFailed(f"no broker answers at {bootstrap}") from None


def _names(case: "Case") -> str:
    """The names of the case and its rows in lower case."""
    return "\n".join((case.key, *(metric.name for metric in case.metrics))).lower()


def _cases(
    words: Sequence[str],
    effort: "Effort",
    protocol: str = "",
    several: "ClientRun | None" = None,
    *,
    bootstrap: bool,
    full: bool,
    quick: bool,
) -> "list[Case]":
    """The cases that match any of the words; without goals for quick runs and for other systems
    than Barnabas and Apache Kafka.

    Raises  BadParameter for a word that matches no case
    """
    from barnabas.bench.compare.compare_cases import CASES
    from barnabas.bench.compare.compare_security import secured_cases
    from barnabas.bench.compare.transaction_cases import TRANSACTION_CASES

    plain = (*CASES, *TRANSACTION_CASES) if words else CASES
    every = secured_cases(protocol) if protocol else plain
    possible = [
        case
        for case in (several.cases() if several else every)
        if (full or not case.crossed)
        and not (bootstrap and (case.local or case.fresh))
        and not (case.compiled and shutil.which("cc") is None)
        and not (quick and case.expected_s(effort) > TOO_LONG_S)
    ]
    for word in words:
        if not any(word in _names(case) for case in possible):
            limited = " for clusters that run already" if bootstrap else ""
            limited += " that is quick" if quick else ""
            raise typer.BadParameter(f"no case{limited} has {word!r} in its name")
    cases = [case for case in possible if not words or any(word in _names(case) for word in words)]
    return [case.without_goals() for case in cases] if bootstrap or quick else cases
