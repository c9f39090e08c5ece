"""The table of attacks as lines on the terminal, as JSON and as docs/limits.md."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from barnabas.bench.attacks.attack import MB, Happened
from barnabas.bench.attacks.attack_probe import Latency
from barnabas.bench.attacks.attack_run import Attacked
from barnabas.bench.attacks.attack_table import LimitsRow, LimitsTable
from barnabas.bench.bench_report import in_one_line

OURS: Final = "Barnabas"
THEIRS: Final = "Apache Kafka"
HEADS: Final = ("attack", "Kafka 3.9.1", OURS, "memory", "others' p50, worst", "recovered")
INTRO: Final = """# Limits

Attacks of hostile users and loads of demanding ones, each on a broker of its own that has just
started, with default properties except for `auto.create.topics.enable` where a row needs it.
`barnabas bench limits` performs them and writes this page; do not edit it. `barnabas bench limits
--only batch,connect` performs some of them, `--quick` all of them at a small size.

- *Memory* is the broker's resident memory without mapped files: before the attack → at its most.
  Kafka's JVM has the heap of its start script, 1 GB, and does not return it.
- *Others* are one client that produces a record and fetches it every 20 ms, in a process of its
  own: the median and the worst time of both requests while the attack lasts.
- *Recovered*: at most 20 s after the attack the other client is served as before it, and three
  quarters of the memory are given back.
- A batch is sent between two good records; then a librdkafka consumer reads the partition from its
  beginning. Every batch has a right CRC.
- Figures of Kafka are in brackets. All processes share the machine's cores.
"""
NO_KAFKA: Final = "Apache Kafka was not available: {why}.\n"


def line(row: LimitsRow) -> list[str]:
    """The cells of a row."""
    ours, theirs = row.found.get(OURS), row.found.get(THEIRS)
    return [
        row.name,
        _told(theirs),
        _told(ours),
        _both(_memory(ours), _memory(theirs)),
        _both(_others(ours), _others(theirs)),
        _both(_recovered(ours), _recovered(theirs)),
    ]


def _told(found: Attacked | str | None) -> str:
    if found is None:
        return "-"
    return f"failed: {found}" if isinstance(found, str) else found.happened.text


def _both(ours: str, theirs: str) -> str:
    return f"{ours or '-'} ({theirs})" if theirs else ours


def _memory(found: Attacked | str | None) -> str:
    if not isinstance(found, Attacked):
        return ""
    return f"{found.memory_before / MB:,.0f} → {found.memory_most / MB:,.0f} MB"


def _others(found: Attacked | str | None) -> str:
    if not isinstance(found, Attacked) or found.during is None or not found.during.rounds:
        return ""
    during = found.during
    lost = f", {during.unserved} not served" if during.unserved else ""
    return f"{1e3 * during.p50_s:.1f}, {1e3 * during.worst_s:,.0f} ms{lost}"


def _recovered(found: Attacked | str | None) -> str:
    if not isinstance(found, Attacked) or found.after is None:
        return ""
    if found.after.unserved:
        return "no: others are not served"
    if not found.serves_again:
        return f"no: p50 {1e3 * found.after.p50_s:.1f} ms"
    return "yes" if found.gave_back else f"keeps {found.memory_after / MB:,.0f} MB"


def as_text(row: LimitsRow) -> str:
    """A row on a terminal: a line per system."""
    lines = [row.name]
    for system, found in row.found.items():
        cells = [_told(found), _memory(found)]
        cells += [f"others {_others(found)}"] if _others(found) else []
        cells += [f"recovered {_recovered(found)}"] if _recovered(found) else []
        lines.append(f"  {system}: " + "; ".join(cell for cell in cells if cell))
    return "\n".join(lines)


def as_json(table: LimitsTable, facts: Mapping[str, str | int], why_no_kafka: str) -> str:
    rows = [
        {
            "key": row.key,
            "name": row.name,
            "found": {
                system: found if isinstance(found, str) else asdict(found)
                for system, found in row.found.items()
            },
        }
        for row in table.rows
    ]
    content = {"machine": dict(facts), "no_kafka": why_no_kafka, "rows": rows}
    # NaN is no JSON: a latency without rounds is null.
    return json.dumps(without_nan(content), indent=1, ensure_ascii=False) + "\n"


def without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def from_json(text: str) -> tuple[LimitsTable, Mapping[str, str | int], str]:
    """The figures that `as_json` has written."""
    content = json.loads(text)
    rows = [
        LimitsRow(
            row["key"],
            row["name"],
            {
                system: found if isinstance(found, str) else _attacked(found)
                for system, found in row["found"].items()
            },
        )
        for row in content["rows"]
    ]
    return LimitsTable(rows), content["machine"], content["no_kafka"]


def _attacked(found: Mapping[str, Any]) -> Attacked:
    read: dict[str, Any] = {"happened": Happened(**found["happened"])}
    for name in ("before", "during", "after"):
        read[name] = _latency(found[name])
    return Attacked(**{**found, **read})


def _latency(found: Mapping[str, Any] | None) -> Latency | None:
    if found is None:
        return None
    nan = float("nan")
    read: dict[str, Any] = {name: nan if each is None else each for name, each in found.items()}
    return Latency(**read)


def as_markdown(table: LimitsTable, facts: Mapping[str, str | int], why_no_kafka: str) -> str:
    body = "".join(_markdown_row(line(row)) for row in table.rows)
    head = _markdown_row(HEADS) + _markdown_row(["---"] * len(HEADS))
    missing = "\n" + NO_KAFKA.format(why=why_no_kafka) if why_no_kafka else ""
    return f"{INTRO}{missing}\n{in_one_line(facts)}\n\n{head}{body}"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def write(
    table: LimitsTable,
    facts: Mapping[str, str | int],
    why_no_kafka: str,
    figures: Path,
    document: Path,
) -> list[Path]:
    """Write the JSON and the page; the page is a function of the JSON."""
    for path in (figures, document):
        path.parent.mkdir(parents=True, exist_ok=True)
    figures.write_text(as_json(table, facts, why_no_kafka))
    document.write_text(as_markdown(table, facts, why_no_kafka))
    return [figures, document]
