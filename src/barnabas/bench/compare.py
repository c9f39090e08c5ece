"""`barnabas bench compare`: Barnabas beside Apache Kafka, or any two clusters beside each other."""

import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rich.console import Console

    from barnabas.bench.compare_cases import Case, Effort
    from barnabas.bench.plan import Say

RESULTS: Final = Path("bench/results")
NOTHING_WRITTEN: Final = (
    "Nothing is written: bench/results is for whole runs of all cases beside Apache Kafka,"
    " --results for others."
)
MEANINGLESS: Final = "Little was done of each, to see that it runs: these figures mean nothing."
LATE: Final = "an idle thread wakes late, p99.9"
TOO_LATE_MS: Final = 3.0
TELLS_OF_THE_MACHINE: Final = "That is much: p99.9 of latencies will tell of the machine."
MINUTES: Final = 40.0
ANSWERS_WITHIN_S: Final = 5.0
WIDTH: Final = 120  # of the table where nobody tells how wide a line may be
TOO_LONG_S: Final = 100.0  # for a run that is to be quick
AGAINST_LIMITS: Final = ("raw", "produce", "fetch", "clients", "latency", "idle")


def compare(
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(
            "--bootstrap",
            "--bootstrap-server",
            "-b",
            help="A cluster that runs; given twice, one is set beside the other.",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help="Cases with one of these words in their name: produce, lz4, 100 B, latency,"
            " prepared, unbatched, rebalance, cost, cold, start, replicated, leader, controller."
        ),
    ] = "",
    full: Annotated[
        bool, typer.Option(help="All combinations of what is varied: for hours.")
    ] = False,
    quick: Annotated[bool, typer.Option(help="Little of each, to see that it runs.")] = False,
    repeat: Annotated[int | None, typer.Option(min=1, help="Rounds of each case; 6.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=1, help="No round that would end later is begun; 40, but --full has none."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Where Markdown, JSON, PNG and HTML go; bench/results for all cases beside"
            " Apache Kafka, unless quick or interrupted, and nowhere for anything else."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the data goes; deleted afterwards.")
    ] = None,
) -> None:
    """Barnabas and Apache Kafka in turn, on this machine, with the same clients: ratios.

    Kafka is fetched from Maven Central once; where that cannot be, Barnabas is measured against
    the limits of the machine only.

    \b
    Examples:
      barnabas bench compare
      barnabas bench compare --only latency,start --repeat 7
      barnabas bench compare --bootstrap one:9092 --bootstrap other:9092
    """
    if bootstrap and len(bootstrap) != 2:
        raise typer.BadParameter("--bootstrap is given twice or not at all")
    from confluent_kafka import libversion
    from rich.console import Console

    from barnabas.bench.compare_cases import warm_up
    from barnabas.bench.compare_run import compare as run
    from barnabas.bench.compare_run import expected_seconds
    from barnabas.bench.compare_show import NO_PICTURE, show, write
    from barnabas.bench.compare_sites import apache_kafka, barnabas, elsewhere
    from barnabas.bench.kafka_release import VERSION, Unavailable, find_kafka
    from barnabas.bench.report import hot_path, in_one_line, machine

    console = Console()
    facts = {**machine(), "hot path": hot_path(), "librdkafka": libversion()[0]}
    if not console.is_terminal:
        console.width = WIDTH
    effort = _effort(quick, repeat, minutes if minutes or full else MINUTES)
    words = [word.strip() for word in only.split(",") if word.strip()]
    cases = _cases(words, effort, bootstrap=bool(bootstrap), full=full, quick=quick)
    if bootstrap:
        for address in bootstrap:
            _check_answers(address)
        ours, theirs = map(elsewhere, bootstrap)
    console.print(in_one_line(facts), highlight=False)
    if not bootstrap:
        with console.status(f"Apache Kafka {VERSION} is fetched, unless it is here already"):
            found = find_kafka()
        if isinstance(found, Unavailable):
            why = f"No Apache Kafka {VERSION} here ({found})"
            _against_limits(console, why, words, results, quick, folder)
            return
        ours, theirs = barnabas(), apache_kafka(found)
        facts["Apache Kafka"] = VERSION
    into = results or (None if bootstrap or only or full or quick else RESULTS)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)  # better found out now than afterwards
    console.print(_plan(len(cases), expected_seconds(cases, effort), effort), highlight=False)
    facts |= _held_up(console, quick)
    with (
        _signalled_once(),
        TemporaryDirectory(prefix="barnabas-compare-", dir=folder) as data,
        _progress(console) as say,
    ):
        outcome = run(
            ours, theirs, cases, effort, Path(data), say, lambda site: warm_up(site, effort)
        )
    show(console, outcome)
    if quick:
        console.print(MEANINGLESS)
        facts["effort"] = "too little to mean anything"
    if outcome.interrupted:
        into = results
        facts["interrupted"] = "yes"
    if into is None:
        console.print(NOTHING_WRITTEN, highlight=False)
    else:
        written = write(outcome, facts, into)
        if not any(path.suffix == ".png" for path in written):
            console.print(NO_PICTURE)
        console.print("written: " + ", ".join(map(str, written)), highlight=False)
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.failures:
        raise typer.Exit(1)


def _effort(quick: bool, repeat: int | None, minutes: float | None) -> "Effort":
    from barnabas.bench.compare_cases import FULL_BYTES, Effort

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
    """How much the machine itself is held up, told before anything is measured."""
    from barnabas.bench.compare_latency import idle_delay_ms

    late_ms = idle_delay_ms(1.0 if quick else 10.0)
    console.print(f"{LATE} {late_ms:.1f} ms", highlight=False)
    if late_ms > TOO_LATE_MS:
        console.print(TELLS_OF_THE_MACHINE, highlight=False)
    return {LATE: f"{late_ms:.1f} ms"}


@contextmanager
def _progress(console: "Console") -> "Iterator[Say]":
    """One line that changes on a terminal; elsewhere a line for each step."""
    begun = time.perf_counter()
    if console.is_terminal:
        with console.status("starting both") as status:
            yield status.update
        return

    def say(text: str) -> None:
        console.print(f"{(time.perf_counter() - begun) / 60:5.1f} min  {text}", highlight=False)

    yield say


def _check_answers(bootstrap: str) -> None:
    """Raises CommandFailed, in one line, where nobody answers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from barnabas.bench.topics import client_settings
    from barnabas.cli.failures import CommandFailed

    try:
        AdminClient(client_settings(bootstrap)).list_topics(timeout=ANSWERS_WITHIN_S)
    except KafkaException:
        raise CommandFailed(f"no broker answers at {bootstrap}") from None


@contextmanager
def _signalled_once() -> "Iterator[None]":
    """The first Ctrl-C or SIGTERM ends the run; a second must not break in while it clears up."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: "FrameType | None") -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_wanted(key: str, words: Sequence[str]) -> bool:
    return not words or any(word in key for word in words)


def _cases(
    words: Sequence[str], effort: "Effort", *, bootstrap: bool, full: bool, quick: bool
) -> "list[Case]":
    """Those with any of the words; without goals where these are not for them: quick runs, and
    others than Barnabas beside Apache Kafka.

    Raises  BadParameter, for a word that is in none of their names
    """
    from barnabas.bench.compare_cases import CASES

    possible = [
        case
        for case in CASES
        if (full or not case.crossed)
        and not (bootstrap and (case.local or case.fresh))
        and not (case.compiled and shutil.which("cc") is None)
        and not (quick and case.expected_s(effort) > TOO_LONG_S)
    ]
    for word in words:
        if not any(word in case.key for case in possible):
            limited = " for clusters that run already" if bootstrap else ""
            limited += " that is quick" if quick else ""
            raise typer.BadParameter(f"no case{limited} has {word!r} in its name")
    cases = [case for case in possible if _is_wanted(case.key, words)]
    return [case.without_goals() for case in cases] if bootstrap or quick else cases


def _against_limits(
    console: "Console",
    why: str,
    words: Sequence[str],
    results: Path | None,
    quick: bool,
    folder: Path | None,
) -> None:
    from barnabas.bench.plan import FULL, SMOKE
    from barnabas.bench.sections import run
    from barnabas.cli.failures import CommandFailed

    sections = [each for each in AGAINST_LIMITS if _is_wanted(each, words)]
    if not sections:
        only = ", ".join(AGAINST_LIMITS)
        raise CommandFailed(f"{why}: without it there is nothing to compare but {only}")
    nothing = ", nothing written" if results else ""
    limits = f"{', '.join(sections)} against raw limits only{nothing}."
    console.print(f"{why}: {limits}", soft_wrap=True, markup=False, highlight=False)
    with TemporaryDirectory(prefix="barnabas-compare-", dir=folder) as data:
        outcome = run(sections, SMOKE if quick else FULL, Path(data), console)
    if quick:
        console.print(MEANINGLESS)
    if outcome.failures:
        raise typer.Exit(1)
