"""Figures of the comparison with Apache Kafka that documents quote are those measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.bench.compare.client_cases import READ
from barnabas.bench.compare.compare_cases import CASES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RESULTS / "compare.json").read_text())
    return read


@pytest.fixture(scope="module")
def rows(found: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row for row in found["rows"]}


def test_the_results_are_of_all_cases_that_there_are(
    found: dict[str, Any], rows: dict[str, Any]
) -> None:
    measured = [name for name, row in rows.items() if row["ratios"]]
    assert measured == [m.name for case in CASES if not case.crossed for m in case.metrics]
    assert (found["failures"], found["interrupted"]) == ([], False)
    assert (RESULTS / "compare.png").stat().st_size > 0
    assert "<svg" in (RESULTS / "compare.html").read_text()


@pytest.mark.parametrize(("document", "least"), [("README.md", 4), ("docs/performance.md", 20)])
def test_documents_quote_rows_as_they_were_measured(
    rows: dict[str, Any], document: str, least: int
) -> None:
    measured = {line for line in lines(RESULTS / "compare.md") if line[0] in rows}
    quoted = {line for line in lines(ROOT / document) if line[0] in rows and len(line) == 5}
    assert {name for name, *_ in measured} == set(rows)
    assert quoted <= measured
    assert len(quoted) >= least


def test_the_performance_page_quotes_every_row_that_misses_its_goal(rows: dict[str, Any]) -> None:
    quoted = {line[0] for line in lines(ROOT / "docs" / "performance.md") if len(line) == 5}
    assert {name for name, row in rows.items() if row["met"] is False} <= quoted


def lines(path: Path) -> set[tuple[str, ...]]:
    """The rows of the tables in a file."""
    return {
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in path.read_text().splitlines()
        if line.startswith("|")
    }


def test_the_results_by_client_are_of_all_clients_and_all_their_cases() -> None:
    found = json.loads((RESULTS / "clients.json").read_text())
    measured = {(row["client"], row["name"]) for row in found["rows"] if row["ratios"]}
    clients = {client for client, _ in measured}
    assert clients == {"librdkafka", "Java", "franz-go", "kafkajs", "aiokafka", "kafka-python"}
    for kind in ("produce, 1,000 B", *(name for name, _ in READ), "produce while consuming"):
        assert {client for client, name in measured if name == kind} == clients
    assert not found["interrupted"]


def test_the_performance_page_has_the_ratios_by_client_as_they_were_measured() -> None:
    measured = {line for line in lines(RESULTS / "clients.md") if len(line) == 7}
    quoted = {line for line in lines(ROOT / "docs" / "performance.md") if len(line) == 7}
    assert quoted <= measured
    assert len(quoted) >= 8
