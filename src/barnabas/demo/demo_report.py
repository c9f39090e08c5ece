"""The demo's HTML report: the proof, a timeline, the table and four plots."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.demo.demo_proof import Claim, Counted
from barnabas.demo.demo_results import Freshness
from barnabas.demo.demo_sales import TICKS_PER_S, Gap, Ledger
from barnabas.demo.demo_table import FORMAT, DemoTable
from barnabas.demo.shop import CATEGORIES
from barnabas.spark.html_report import BAD, COLOURS, GOOD, ReportPage, new_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMOOTHED: Final = TICKS_PER_S // 2


@dataclass(slots=True)
class Events:
    """The events of the demo besides sales; times are seconds since the shop opened."""

    killed_broker: int = -1
    led: frozenset[int] = frozenset()  # the partitions that the killed broker led
    killed_s: float = 0.0
    launched_s: float = 0.0
    in_sync_s: float = 0.0
    # Time, acknowledged orders, and orders in the results.
    lag: list[tuple[float, int, int]] = field(default_factory=list)


def failover_gap(ledger: Ledger) -> Gap:
    """The longest time without an acknowledgement from a partition."""
    return max(ledger.longest.values(), key=lambda gap: gap.seconds, default=Gap(-1, 0.0, 0.0))


def write_report(
    path: Path,
    ledger: Ledger,
    events: Events,
    freshness: Freshness,
    claims: Sequence[Claim],
    table: DemoTable,
) -> None:
    """Write the self-contained page."""
    is_proved = all(claim.holds for claim in claims)
    verdict = (
        "Every acknowledged order was counted exactly once" if is_proved else "The proof FAILED"
    )
    page = ReportPage(
        "Barnabas: a shop, a killed broker, and not a cent lost",
        f"{verdict}: {ledger.total.orders:,} orders, {ledger.total.cents / 100:,.2f} of revenue.",
    )
    page.heading("The proof")
    page.claims(claims)
    page.heading("What happened")
    page.table(("at", "what"), _timeline(ledger, events))
    page.heading("Throughput")
    page.figure(
        _throughput(ledger, events),
        "Orders acknowledged by all in-sync replicas, by the first leader of their partition.",
    )
    page.heading("The failover gap")
    gap = failover_gap(ledger)
    page.figure(
        _raster(ledger, events),
        f"A mark for each acknowledgement of a partition (red: led by the killed broker). All were"
        f" silent for up to {gap.seconds:.1f} seconds: acks=all waits for every in-sync replica,"
        " and the killed broker had a replica of each partition until the cluster's supervisor"
        " closed its session. Orders of that time waited in the producer.",
    )
    page.heading("From order to result")
    page.figure(
        _lag(events),
        f"Acknowledged orders that are not in the results yet. An order is in the results after"
        f" {freshness}: a streaming query writes the new totals to a topic every half second.",
    )
    page.heading("Revenue")
    page.figure(
        _revenue(table.revenue),
        "Per minute of the shop's clock and category. The death of a broker lowers no minute.",
    )
    page.heading("The topic as a table")
    page.paragraph(
        f"`barnabas pipeline table` wrote the topic of orders to a table in the format {FORMAT}:"
        f" {table.audit.rows:,} rows with the offset of each record. `barnabas pipeline audit"
        f" --table` compared {table.audit.compared:,} of them with the log and found"
        f" {len(table.audit.problems)} differences. delta-rs reads these first rows:"
    )
    page.table(table.columns, table.first)
    page.write(path)


def _timeline(ledger: Ledger, events: Events) -> list[tuple[str, str]]:
    gap = failover_gap(ledger)
    broker = f"broker {events.killed_broker}"
    timeline = [
        (0.0, "the shop opens"),
        (events.killed_s, f"SIGKILL for {broker}, leader of {len(events.led)} partitions"),
        (gap.end_s, "its partitions have new leaders; all partitions acknowledge again"),
        (events.launched_s, f"{broker} is restarted on its log directory"),
        (events.in_sync_s, f"{broker} has caught up and is in every ISR"),
        (events.lag[-1][0] if events.lag else 0.0, "every order is in the results"),
    ]
    return [(f"{at_s:.1f} s", what) for at_s, what in sorted(timeline)]


def _plot(draw: "Callable[[Axes], None]", height: float = 2.9) -> Any:
    figure, axes = new_plot(height)
    draw(axes)
    return figure


def _throughput(ledger: Ledger, events: Events) -> Any:
    """Two lines, each smoothed over half a second."""

    def draw(axes: "Axes") -> None:
        others = [number for number in ledger.longest if number not in events.led]
        for label, colour, partitions in (
            ("broker that was killed", BAD, events.led),
            ("other brokers", COLOURS[0], others),
        ):
            rates = _rates(ledger, partitions)
            axes.plot(*rates, color=colour, label=f"partitions led by the {label}")
        _mark(axes, events)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("orders / s")
        axes.legend(loc="upper right", frameon=False)

    return _plot(draw)


def _rates(ledger: Ledger, partitions: Collection[int]) -> tuple[list[float], list[float]]:
    last = max((tick for tick, _ in ledger.acknowledgements), default=0)
    counts = [0] * (last + 1)
    for (tick, partition), count in ledger.acknowledgements.items():
        if partition in partitions:
            counts[tick] += count
    times = [(tick + 1) / TICKS_PER_S for tick in range(0, last + 1, _SMOOTHED)]
    rates = [
        sum(counts[tick : tick + _SMOOTHED]) * TICKS_PER_S / _SMOOTHED
        for tick in range(0, last + 1, _SMOOTHED)
    ]
    return times, rates


def _raster(ledger: Ledger, events: Events) -> Any:
    """A mark for each acknowledgement of a partition; the gap has none."""

    def draw(axes: "Axes") -> None:
        for partition in sorted({number for _, number in ledger.acknowledgements}):
            ticks = [tick / TICKS_PER_S for tick, n in ledger.acknowledgements if n == partition]
            colour = BAD if partition in events.led else COLOURS[0]
            axes.scatter(ticks, [partition] * len(ticks), s=9, marker="|", color=colour)
        _mark(axes, events)
        axes.set_yticks(sorted({number for _, number in ledger.acknowledgements}))
        axes.set_ylabel("partition")

    return _plot(draw)


def _lag(events: Events) -> Any:
    def draw(axes: "Axes") -> None:
        times = [at_s for at_s, _, _ in events.lag]
        axes.plot(times, _behind(events.lag), color=COLOURS[0])
        _mark(axes, events)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("orders not in results")

    return _plot(draw)


def _behind(lag: Iterable[tuple[float, int, int]]) -> list[int]:
    return [max(0, acknowledged - taken) for _, acknowledged, taken in lag]


def _revenue(counted: Counted) -> Any:
    """One stacked bar per minute of the shop's clock."""
    minutes = sorted({minute for minute, _ in counted.revenue})

    def draw(axes: "Axes") -> None:
        below = [0.0] * len(minutes)
        for category, colour in zip(CATEGORIES, COLOURS, strict=False):
            found = [counted.revenue.get((minute, category)) for minute in minutes]
            height = [total.cents / 100 if total else 0.0 for total in found]
            axes.bar(range(len(minutes)), height, 0.9, bottom=below, color=colour, label=category)
            below = [low + more for low, more in zip(below, height, strict=True)]
        shown = range(0, len(minutes), max(1, len(minutes) // 10))
        axes.set_xticks(list(shown), [f"{minutes[number]:%H:%M}" for number in shown])
        axes.set_xlabel("the shop's clock")
        axes.set_ylabel("revenue / minute")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

    return _plot(draw, 3.4)


def _mark(axes: "Axes", events: Events) -> None:
    """Mark the kill and the restart on a time axis."""
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds since the shop opened")
    for at_s, colour, what in ((events.killed_s, BAD, "killed"), (events.launched_s, GOOD, "back")):
        axes.axvline(at_s, color=colour, linestyle="--", linewidth=1)
        axes.annotate(
            what, (at_s, 1.0), xycoords=("data", "axes fraction"), color=colour, ha="center"
        )
