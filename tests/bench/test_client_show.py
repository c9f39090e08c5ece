"""The results of several clients as table, Markdown, JSON, HTML and picture."""

import io
import json
from pathlib import Path

from rich.console import Console

from barnabas.bench.compare.client_show import (
    as_html,
    as_markdown,
    by_client,
    draw,
    ratios,
    show,
    write,
)
from barnabas.bench.compare.compare_cases import CaseMetric
from barnabas.bench.compare.compare_run import Compared, Comparison

JAVA = CaseMetric("consume", "MB/s", goal=1.0, client="Java")
GO = CaseMetric("consume", "MB/s", goal=1.0, client="<go>")
MEAN = CaseMetric("latency, mean", "ms", less=True, goal=1.0, client="Java")
P50 = CaseMetric("latency, p50", "ms", less=True, client="<go>")
FOUND = Comparison(
    "ours",
    "theirs",
    [
        Compared(JAVA, [1.0, 2.0, 3.0], [10.0, 10.0, 10.0]),
        Compared(GO, [20.0], [10.0]),
        Compared(MEAN, [1.0], [2.0]),
        Compared(P50),
    ],
    ["<go>: latency, theirs: gone"],
)


def test_the_table_has_a_column_per_client_and_ratios_in_its_cells() -> None:
    assert ratios(FOUND) == (
        ["", "Java", "<go>"],
        [
            ["consume", "0.20 (0.10-0.30) ✗", "2.00 ✓"],
            ["latency, mean", "0.50 ✓", ""],
            ["latency, p50", "", "not measured"],
        ],
    )


def test_a_row_that_cannot_be_told_apart_is_marked_and_details_are_with_their_client() -> None:
    cpu = CaseMetric("consume: client's CPU", "s/GB", less=True, client="Java", detail=True)
    turns = [0.9, 0.95, 0.97, 1.0, 1.1, 1.2]
    rows = [Compared(JAVA, [9.0], [10.0], turns), Compared(cpu, [2.0], [2.0])]
    found = Comparison("ours", "theirs", rows, [])
    assert ratios(found) == (["", "Java"], [["consume", "0.90 ✗ ≈"]])
    assert "| consume: client's CPU | 2 s/GB | 2 s/GB | 1.00 |  |" in as_markdown(found, {})


def test_each_client_has_a_table_with_the_figures_of_both() -> None:
    text = as_markdown(FOUND, {"cores": 2})
    assert text.startswith("# ours beside theirs, by client\n\ncores 2\n\n")
    assert (
        "|  | Java | <go> |\n| --- | ---: | ---: |\n| consume | 0.20 (0.10-0.30) ✗ | 2.00 ✓ |\n"
        in text
    )
    java = text.partition("\n## Java\n\n")[2].partition("\n## <go>\n")[0]
    assert (
        "|  | ours | theirs | ratio (spread) | goal |\n| --- | ---: | ---: | ---: | --- |\n" in java
    )
    assert "| consume | 2 MB/s | 10 MB/s | 0.20 (0.10-0.30) | ✗ ≥ 1, 0 of 3 rounds |\n" in java
    assert "latency, p50" not in java
    assert "\nfailed: <go>: latency, theirs: gone\n" in text
    assert "has no KIP-848 groups: in that row its figure is of a classic group" in text


def test_all_of_it_is_written_as_json_table_page_and_picture(tmp_path: Path) -> None:
    data, table, page, picture = write(FOUND, {"cores": 2}, tmp_path / "new")
    assert [path.name for path in (data, table, page, picture)] == [
        "clients.json",
        "clients.md",
        "clients.html",
        "clients.png",
    ]
    rows = json.loads(data.read_text())["rows"]
    assert [(row["name"], row["client"]) for row in rows][:2] == [
        ("consume", "Java"),
        ("consume", "<go>"),
    ]
    assert table.read_text() == as_markdown(FOUND, {"cores": 2})
    assert "<svg" in page.read_text()
    assert "<h2>&lt;go&gt;</h2>" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "<svg" not in as_html(FOUND, {}, b""), "a page without a picture is a page"


def test_a_terminal_shows_the_ratios_then_the_figures_then_the_failures() -> None:
    output = io.StringIO()
    show(Console(file=output, width=120), FOUND)
    text = output.getvalue()
    places = [text.index(word) for word in ("by client", "0.20 (0.10-0.30) ✗", "10 MB/s", "failed")]
    assert places == sorted(places)


def test_a_picture_needs_no_client_to_have_all_rows() -> None:
    assert [len(rows) for rows in by_client(FOUND).values()] == [2, 2]
    assert set(draw(FOUND)) == {"png", "svg"}
