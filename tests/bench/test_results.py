"""The documents show the recorded results of the comparison with Apache Kafka."""

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


def test_the_readme_tells_what_was_measured_and_all_that_misses_its_goal(
    rows: dict[str, Any],
) -> None:
    measured = {line for line in lines(RESULTS / "compare.md") if line[0] in rows}
    told = {line for line in lines(ROOT / "README.md") if line[0] in rows and len(line) == 5}
    assert {name for name, *_ in measured} == set(rows)
    assert told <= measured
    assert len(told) >= 8
    missed = {name for name, row in rows.items() if row["met"] is False}
    assert missed <= {name for name, *_ in told}


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


def test_the_readme_has_the_ratios_by_client_as_they_were_measured() -> None:
    measured = {line for line in lines(RESULTS / "clients.md") if len(line) == 7}
    told = {line for line in lines(ROOT / "README.md") if len(line) == 7}
    assert told <= measured
    assert len(told) >= 8
