"""`barnabas sim`: replay one simulated run, or search many seeds for a broken law.

The simulation is imported on use, so that `barnabas --help` stays fast.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.show import show_json, show_table

if TYPE_CHECKING:
    from barnabas.sim.seed_runner import Summary
    from barnabas.sim.sim_run import Report
    from barnabas.sim.world.seed_settings import InEverySeed

MOST_SHOWN: Final = 20


def sim(
    seed: Annotated[
        int | None, typer.Option(min=0, help="Replay this seed and print its trace.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Search these seeds, such as 1..1000.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop the search after this time.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Inject faults for this long, in simulated time.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Parallel runs; default: one per processor.")
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(help="Disable a safeguard, such as min_insync_check."),
    ] = None,
    transactions: Annotated[
        bool,
        typer.Option("--transactions", help="Every seed has transactions, not only half of them."),
    ] = False,
    sole_replicas: Annotated[
        bool,
        typer.Option(
            "--sole-replicas",
            help="In every seed partitions have one replica, not only in some of them.",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the results into docs/reliability.md."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the brokers' info messages, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate clusters with injected faults, and check every guarantee.

    A seed is the same run, byte for byte, on any machine. The exit code is 1 if a law is broken.

    \b
    Examples:
      barnabas sim --seed 42                      replay one run and print its trace
      barnabas sim --seeds 1..1000 --minutes 10   search for a run that breaks a law
      barnabas sim --seed 1 --without min_insync_check
                                                  show what a safeguard prevents
      barnabas sim --seeds 1..100 --transactions  search, with transactions in every seed
      barnabas sim --seeds 1..100 --sole-replicas
                                                  search, with one replica of every partition
      barnabas sim --seeds 1..500 --report docs/reliability.md
                                                  search, and update the document
    """
    if (seed is None) == (seeds is None):
        raise Misused("specify either --seed N to replay or --seeds FIRST..LAST to search")
    if seed is None and without is not None:
        raise Misused("--without needs one run: specify --seed N")
    if transactions and without is not None:
        raise Misused("--transactions cannot be used with --without, which chooses the clients")
    if seed is not None and report is not None:
        raise Misused("--report needs many runs: specify --seeds FIRST..LAST")
    from barnabas.sim.world.seed_settings import InEverySeed

    every = InEverySeed(transactions, sole_replicas)
    if seed is not None:
        broken = _replay(seed, seconds, without, every, verbose, json)
    else:
        wanted = parse_seeds(seeds or "")
        broken = _search(wanted, minutes, seconds, processes, every, report, json)
    if broken:
        raise typer.Exit(1)


def parse_seeds(text: str) -> range:
    """Parse `1..1000`, inclusive, or a single seed. Raises Misused."""
    first, dots, last = text.partition("..")
    if not (first.isdecimal() and (last.isdecimal() if dots else not last)):
        raise Misused(f"--seeds {text}: expected FIRST..LAST such as 1..1000")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise Misused(f"--seeds {text}: the last seed is below the first")
    return seeds


# -- one run -----------------------------------------------------------------


def _replay(
    seed: int,
    seconds: float | None,
    without: str | None,
    every: "InEverySeed",
    verbose: bool,
    json: bool,
) -> bool:
    from barnabas.sim.seed_runner import run_seed

    if without is None:
        report = run_seed(seed, seconds, every=every)
    else:
        report = _mutated(seed, without, every.sole_replicas)
    if json:
        show_json(_as_json(report))
        return bool(report.broken)
    for line in report.lines:
        if verbose or not line.is_minor:
            print(line)
    print()
    _show_faults(report.faults)
    _show_visited(report.visited)
    print(
        f"\nseed {seed}: {report.simulated_s:.0f} s simulated, {report.operations} operations"
        f" checked, history {report.digest}"
    )
    _show_broken(report)
    return bool(report.broken)


def _mutated(seed: int, without: str, sole_replicas: bool) -> "Report":
    from barnabas.sim.mutations import MUTATIONS, SOLE_MUTATIONS

    known = SOLE_MUTATIONS if sole_replicas else MUTATIONS
    if without not in known:
        raise Misused(f"--without {without}: expected one of {', '.join(known)}")
    return known[without].run_seed(seed)


def _as_json(report: "Report") -> dict[str, Any]:
    return {
        "seed": report.seed,
        "broken": list(report.broken),
        "faults": _sorted(report.faults),
        "visited": _sorted(report.visited),
        "operations": report.operations,
        "simulated_seconds": round(report.simulated_s, 3),
        "history": report.digest,
        "story": [[round(line.at, 6), line.who, line.what] for line in report.lines],
    }


def _show_broken(report: "Report") -> None:
    if not report.broken:
        print("no law was broken")
        return
    print(f"BROKEN in seed {report.seed}:")
    for what in report.broken[:MOST_SHOWN]:
        print(f"  {what}")
    if len(report.broken) > MOST_SHOWN:
        print(f"  and {len(report.broken) - MOST_SHOWN} more")


# -- many runs ---------------------------------------------------------------


def _search(
    seeds: range,
    minutes: float | None,
    seconds: float | None,
    processes: int | None,
    every: "InEverySeed",
    report_at: Path | None,
    json: bool,
) -> bool:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from barnabas.sim.mutations import find_all
    from barnabas.sim.seed_runner import search, shorten
    from barnabas.sim.sim_report import check_writable, write

    if report_at is not None:
        check_writable(report_at)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting")

        def on_report(summary: "Summary", report: "Report") -> None:
            progress.update(
                task,
                description=f"seeds {summary.seeds} of {len(seeds)}, failing"
                f" {len(summary.failing)}, operations {summary.operations},"
                f" simulated {summary.simulated_s / 3600:.1f} h",
            )
            if report.broken:
                progress.console.print(f"seed {report.seed}: {report.broken[0]}", markup=False)

        summary = search(
            seeds,
            minutes=minutes,
            seconds=seconds,
            processes=processes,
            every=every,
            on_report=on_report,
        )
        shortest, shorter_s = summary.shortest, seconds
        if shortest is not None and seconds is None and shortest.steps:
            progress.update(task, description=f"shortening seed {shortest.seed}")
            shortest, shorter_s = shorten(shortest, every=every)
        if report_at is not None:
            progress.update(task, description="running without each safeguard")
            write(report_at, seeds, summary, list(find_all(processes)))
    if json:
        show_json(_summary_as_json(summary, shortest, shorter_s))
    else:
        _show_summary(summary, shortest, shorter_s)
    return bool(summary.failing)


def _show_summary(summary: "Summary", shortest: "Report | None", seconds: float | None) -> None:
    _show_faults(summary.faults)
    _show_visited(summary.visited)
    print(
        f"\n{summary.seeds} seeds run, {sum(summary.faults.values())} faults injected,"
        f" {summary.operations} operations checked"
    )
    print(
        f"{summary.simulated_s / 3600:.2f} h simulated in {summary.elapsed_s:.0f} s:"
        f" {summary.simulated_hours_per_minute:.2f} simulated hours per minute"
    )
    if shortest is None:
        print("no law was broken")
        return
    failing = ", ".join(str(each.seed) for each in sorted(summary.failing, key=_seed)[:MOST_SHOWN])
    print(f"\n{len(summary.failing)} seeds fail: {failing}")
    _show_broken(shortest)
    print(f"\nto replay: {_command(shortest, seconds, summary.every)}")


def _summary_as_json(
    summary: "Summary", shortest: "Report | None", seconds: float | None
) -> dict[str, Any]:
    return {
        "seeds": summary.seeds,
        "faults": _sorted(summary.faults),
        "visited": _sorted(summary.visited),
        "operations": summary.operations,
        "simulated_seconds": round(summary.simulated_s, 3),
        "elapsed_seconds": round(summary.elapsed_s, 3),
        "simulated_hours_per_minute": round(summary.simulated_hours_per_minute, 3),
        "failing": [
            {"seed": each.seed, "broken": list(each.broken)}
            for each in sorted(summary.failing, key=_seed)
        ],
        "shortest": None if shortest is None else _command(shortest, seconds, summary.every),
    }


def _seed(report: "Report") -> int:
    return report.seed


def _command(report: "Report", seconds: float | None, every: "InEverySeed") -> str:
    lasting = "" if seconds is None else f" --seconds {seconds:g}"
    forced = " --transactions" if every.transactions else ""
    forced += " --sole-replicas" if every.sole_replicas else ""
    return f"barnabas sim --seed {report.seed}{lasting}{forced}"


def _sorted(faults: Mapping[str, int]) -> dict[str, int]:
    return {kind: faults[kind] for kind in sorted(faults)}


def _show_faults(faults: "Counter[str]") -> None:
    rows = [(kind, count) for kind, count in _sorted(faults).items() if count]
    show_table(("FAULT", "TIMES"), rows)


def _show_visited(visited: "Counter[str]") -> None:
    if visited:
        print()
        show_table(("WITH A SOLE REPLICA", "TIMES"), list(_sorted(visited).items()))
