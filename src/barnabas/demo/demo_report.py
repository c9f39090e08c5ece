"""The demo's report: what happened, as four plots, and the proof in words."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.demo.demo_proof import Claim, Counted
from barnabas.demo.demo_sales import TICKS_PER_S, Gap, Ledger
from barnabas.demo.shop import CATEGORIES
from barnabas.spark.html_report import BAD, COLOURS, GOOD, Page, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMOOTHED: Final = TICKS_PER_S // 2


@dataclass(slots=True)
class Events:
    """What happened besides the selling; times are seconds since the shop opened."""

    killed_broker: int = -1
    led: frozenset[int] = frozenset()  # the partitions that the killed broker led
    killed_s: float = 0.0
    launched_s: float = 0.0
    in_sync_s: float = 0.0
    updates: list[tuple[float, float]] = field(default_factory=list)
    # When, how many orders were acknowledged by then, and how many the pipeline had taken.
    lag: list[tuple[float, int, int]] = field(default_factory=list)


def failover_gap(ledger: Ledger) -> Gap:
    """The longest time that some partition acknowledged nothing."""
    return max(ledger.longest.values(), key=lambda gap: gap.seconds, default=Gap(-1, 0.0, 0.0))


def write_report(
    path: Path, ledger: Ledger, events: Events, claims: Sequence[Claim], counted: Counted
) -> None:
    """Write the page; it needs no other file."""
    is_proved = all(claim.holds for claim in claims)
    verdict = (
        "Every acknowledged order was counted exactly once" if is_proved else "The proof FAILED"
    )
    page = Page(
        "Barnabas: a shop, a killed broker, and not a cent lost",
        f"{verdict}: {ledger.total.orders:,} orders, {ledger.total.cents / 100:,.2f} of revenue.",
    )
    page.heading("The proof")
    page.claims(claims)
    page.heading("What happened")
    page.table(("at", "what"), _story(ledger, events))
    page.heading("Throughput")
    page.figure(
        _throughput(ledger, events),
        "Orders acknowledged by all in-sync replicas, by who led their partitions at first.",
    )
    page.heading("The failover gap")
    gap = failover_gap(ledger)
    page.figure(
        _raster(ledger, events),
        f"A mark where a partition acknowledged orders (red: the killed broker led it). All were"
        f" silent, {gap.seconds:.1f} seconds at most: acks=all waits for every in-sync replica, and"
        " the killed broker had one of each, until its death was noticed. What was sold meanwhile"
        " waited in the producer.",
    )
    page.heading("Lag")
    page.figure(
        _lag(events),
        "Acknowledged orders that the pipeline had not counted yet, as its consumer group tells."
        " Each update takes all that has come since the one before (grey: an update runs).",
    )
    page.heading("Revenue")
    page.figure(
        _revenue(counted),
        "As the pipeline wrote it to Parquet and to the topic, for each minute of the shop's clock"
        " and each category. No minute is lower because a broker died in it.",
    )
    page.write(path)


def _story(ledger: Ledger, events: Events) -> list[tuple[str, str]]:
    gap = failover_gap(ledger)
    broker = f"broker {events.killed_broker}"
    told = [
        (0.0, "the shop opens"),
        (events.killed_s, f"SIGKILL for {broker}, which leads {len(events.led)} partitions"),
        (gap.end_s, "its partitions have new leaders, and all acknowledge again"),
        (events.launched_s, f"{broker} is started again, on what it had"),
        (events.in_sync_s, f"{broker} has caught up, and is in sync everywhere"),
        (events.updates[-1][1], f"the last of {len(events.updates)} updates of the pipeline ends"),
    ]
    return [(f"{at_s:.1f} s", what) for at_s, what in sorted(told)]


def _plot(draw: "Callable[[Axes], None]", height: float = 2.9) -> Any:
    figure = new_figure(height)
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
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
    """A dot where a partition acknowledged something; what is missing is the gap."""

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
        for begin_s, end_s in events.updates:
            axes.axvspan(begin_s, end_s, color="#eaeef2", linewidth=0)
        times = [at_s for at_s, _, _ in events.lag]
        axes.plot(times, _behind(events.lag), color=COLOURS[0])
        _mark(axes, events)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("orders behind")

    return _plot(draw)


def _behind(lag: Iterable[tuple[float, int, int]]) -> list[int]:
    return [max(0, acknowledged - taken) for _, acknowledged, taken in lag]


def _revenue(counted: Counted) -> Any:
    """One stacked bar for each minute of the shop's clock."""
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
    """The two moments that everything else is read against, on an axis of time."""
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds since the shop opened")
    for at_s, colour, what in ((events.killed_s, BAD, "killed"), (events.launched_s, GOOD, "back")):
        axes.axvline(at_s, color=colour, linestyle="--", linewidth=1)
        axes.annotate(
            what, (at_s, 1.0), xycoords=("data", "axes fraction"), color=colour, ha="center"
        )
