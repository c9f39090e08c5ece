"""The HTML report of an audit: checks, findings, and plots of the replicas."""

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.show import counted, show_bytes
from barnabas.spark.audit.audit_findings import AuditCheck, AuditResult
from barnabas.spark.html_report import BAD, COLOURS, GOOD, ReportPage, new_plot

if TYPE_CHECKING:
    pass

_MOST_ROWS: Final = 500
_MOST_BARS: Final = 60
_MS_PER_S: Final = 1000


def write_audit_report(path: Path, audited: AuditResult, with_archive: bool) -> None:
    """Write the report as one self-contained file."""
    wrong = len(audited.findings)
    verdict = counted(wrong, "finding") if wrong else "No findings"
    partitions = len({replica.partition for replica in audited.replicas})
    page = ReportPage(
        "Audit of a log",
        f"{verdict}: {counted(len(audited.replicas), 'replica')} of"
        f" {counted(partitions, 'partition')}, {show_bytes(_total(audited))} read.",
    )
    page.heading("Checks")
    page.claims(claims(audited, with_archive))
    if wrong:
        page.heading("Findings")
        page.table(
            ("partition", "broker", "offset", "finding", "places"),
            [
                (str(f.partition), f.broker, "" if f.offset is None else f.offset, f.what, f.places)
                for f in audited.findings[:_MOST_ROWS]
            ],
        )
    for note in audited.notes:
        page.paragraph(f"Note: {note}.")
    page.heading("Offsets of each replica")
    page.figure(
        _extents(audited),
        "The first to the last offset of each replica, relative to its partition."
        " Red marks are findings.",
    )
    page.heading("Bytes per broker")
    page.figure(
        _bytes(audited), "By topic. Brokers with the same replicas have the same number of bytes."
    )
    if audited.history:
        page.heading("Records over time")
        page.figure(
            _history(audited),
            "By the timestamps of batches, per broker. Where lines diverge, one broker has records"
            " that another lacks.",
        )
    page.heading("Replicas")
    page.table(
        ("partition", "broker", "start", "end", "high watermark", "records", "bytes", "equal"),
        [_row(audited, number) for number in range(min(len(audited.replicas), _MOST_ROWS))],
    )
    page.write(path)


def claims(audited: AuditResult, with_archive: bool) -> list[tuple[bool, str]]:
    """Each check as a claim, and whether it holds."""
    found = {finding.kind for finding in audited.findings}
    kinds = [kind for kind in AuditCheck if with_archive or kind is not AuditCheck.ARCHIVE]
    return [(kind not in found, kind.value) for kind in kinds]


def _total(audited: AuditResult) -> int:
    return sum(segment.size for replica in audited.replicas for segment in replica.segments)


def _row(audited: AuditResult, number: int) -> tuple[object, ...]:
    replica = audited.replicas[number]
    totals = audited.totals_of(replica)
    equal = audited.compared.get((replica.broker, replica.partition))
    return (
        str(replica.partition),
        replica.broker,
        totals.start,
        totals.end,
        "" if replica.high_watermark is None else replica.high_watermark,
        totals.records,
        totals.size,
        "the longest" if equal is None else f"{equal:,} of {totals.batches:,} batches",
    )


def _extents(audited: AuditResult) -> Any:
    """A bar per replica; if there are too many, those with findings are kept."""
    wrong = {(finding.broker, finding.partition) for finding in audited.findings}
    chosen = sorted(audited.replicas, key=lambda each: (each.broker, each.partition) not in wrong)[
        :_MOST_BARS
    ]
    chosen.sort(key=lambda each: (each.partition, each.broker), reverse=True)
    figure, axes = new_plot(0.8 + 0.2 * len(chosen))
    for row, replica in enumerate(chosen):
        ends = [
            audited.totals_of(e).end for e in audited.replicas if e.partition == replica.partition
        ]
        whole, totals = max(1, *ends), audited.totals_of(replica)
        start = min(totals.start, totals.end) / whole
        axes.barh(row, totals.end / whole - start, 0.7, start, color=GOOD, alpha=0.55)
        marks = [
            finding.offset / whole
            for finding in audited.findings
            if (finding.broker, finding.partition) == (replica.broker, replica.partition)
            and finding.offset is not None
        ]
        axes.scatter(marks, [row] * len(marks), color=BAD, marker="|", s=120, zorder=3)
    labels = [f"{each.partition} on {each.broker}" for each in chosen]
    axes.set_yticks(range(len(chosen)), labels)
    axes.set_xlim(0, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return figure


def _bytes(audited: AuditResult) -> Any:
    brokers = sorted({replica.broker for replica in audited.replicas})
    sizes: dict[str, list[int]] = {}
    for replica in audited.replicas:
        of_topic = sizes.setdefault(replica.partition.topic, [0] * len(brokers))
        of_topic[brokers.index(replica.broker)] += audited.totals_of(replica).size
    largest = sorted(sizes, key=lambda topic: -sum(sizes[topic]))
    shown = {topic: sizes[topic] for topic in largest[: len(COLOURS) - 1]}
    for topic in largest[len(COLOURS) - 1 :]:
        others = shown.setdefault("others", [0] * len(brokers))
        shown["others"] = [a + b for a, b in zip(others, sizes[topic], strict=True)]
    figure, axes = new_plot(2.6)
    below = [0.0] * len(brokers)
    for (topic, totals), colour in zip(shown.items(), COLOURS, strict=False):
        megabytes = [size / 1e6 for size in totals]
        axes.bar([f"broker {b}" for b in brokers], megabytes, 0.6, below, color=colour, label=topic)
        below = [low + more for low, more in zip(below, megabytes, strict=True)]
    axes.set_ylabel("MB")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def _history(audited: AuditResult) -> Any:
    dates: Any = import_module("matplotlib.dates")
    figure, axes = new_plot(2.6)
    for broker in sorted({broker for _, broker, _ in audited.history}):
        points = [(at, records) for at, who, records in audited.history if who == broker]
        times = [dates.date2num(datetime.fromtimestamp(at / _MS_PER_S, UTC)) for at, _ in points]
        colour = COLOURS[broker % len(COLOURS)]
        axes.plot(times, [n for _, n in points], color=colour, label=f"broker {broker}", alpha=0.8)
    axes.xaxis_date(tz=UTC)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.autofmt_xdate()
    return figure
