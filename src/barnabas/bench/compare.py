"""`barnabas bench compare`: Barnabas beside Apache Kafka, or any two clusters beside each other."""

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

    from barnabas.bench.compare_cases import Effort
    from barnabas.bench.plan import Say

RESULTS: Final = Path("bench/results")
NOTHING_WRITTEN: Final = (
    "Nothing is written: bench/results is for whole runs of all cases beside Apache Kafka,"
    " --results for others."
)
MEANINGLESS: Final = "Little was done of each, to see that it runs: these figures mean nothing."
LATE: Final = "an idle thread wakes late, p99.9"
NOT_SEEN: Final = "No real-time priority here: latencies are with the machine's own standstills."
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
            " unbatched, rebalance, cost, cold, start, replicated, leader, controller."
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

    from barnabas.bench.compare_cases import CASES, warm_up
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
    console.print(in_one_line(facts), highlight=False)
    effort = _effort(quick, repeat, minutes if minutes or full else MINUTES)
    cases = [
        case
        for case in CASES
        if (full or not case.crossed)
        and not (bootstrap and (case.local or case.fresh))
        and not (quick and case.expected_s(effort) > TOO_LONG_S)
        and _is_wanted(case.key, only)
    ]
    if not cases:
        running = ", for clusters that run already" if bootstrap else ""
        raise typer.BadParameter(f"no case{running} has any of {only!r} in its name")
    if bootstrap:
        for address in bootstrap:
            _check_answers(address)
        ours, theirs = map(elsewhere, bootstrap)
        cases = [case.without_goals() for case in cases]
    else:
        with console.status(f"Apache Kafka {VERSION} is fetched, unless it is here already"):
            found = find_kafka()
        if isinstance(found, Unavailable):
            ignored = ", all sections, nothing written" if only or results else ""
            limits = f"against raw limits only{ignored}."
            why = f"No Apache Kafka {VERSION} here ({found}): {limits}"
            console.print(why, soft_wrap=True, markup=False, highlight=False)
            _against_limits(console, quick, folder)
            return
        ours, theirs = barnabas(), apache_kafka(found)
        facts["Apache Kafka"] = VERSION
    into = results or (None if bootstrap or only or full or quick else RESULTS)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)  # better found out now than afterwards
    console.print(_plan(len(cases), expected_seconds(cases, effort), effort), highlight=False)
    facts |= _standing_still(console, quick)
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


def _standing_still(console: "Console", quick: bool) -> dict[str, str]:
    """How much the machine itself is held up, told before anything is measured."""
    from barnabas.bench import standstills
    from barnabas.bench.compare_latency import idle_delay_ms

    facts = {LATE: f"{idle_delay_ms(1.0 if quick else 10.0):.1f} ms"}
    console.print(f"{LATE} {facts[LATE]}", highlight=False)
    if not standstills.are_told():
        facts["standstills"] = "not seen"
        console.print(NOT_SEEN)
    return facts


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


def _is_wanted(key: str, only: str) -> bool:
    words: Sequence[str] = [word.strip() for word in only.split(",") if word.strip()]
    return not words or any(word in key for word in words)


def _against_limits(console: "Console", quick: bool, folder: Path | None) -> None:
    from barnabas.bench.plan import FULL, SMOKE
    from barnabas.bench.sections import run

    with TemporaryDirectory(prefix="barnabas-compare-", dir=folder) as data:
        outcome = run(AGAINST_LIMITS, SMOKE if quick else FULL, Path(data), console)
    if quick:
        console.print(MEANINGLESS)
    if outcome.failures:
        raise typer.Exit(1)
