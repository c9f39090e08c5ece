"""The Spark section, with and without Spark's Kafka connector."""

from pathlib import Path

import pytest

from barnabas.bench import spark_bench as section
from barnabas.bench.bench_plan import SMOKE, Bench
from barnabas.bench.spark_bench import OURS, THEIRS, Measured
from barnabas.bench.spark_connector import Connector, NoConnector


def measured(*formats: str) -> Measured:
    """A thousand rows in one second each way; theirs take two."""
    seconds = {name: [2.0 if name == THEIRS else 1.0] * 3 for name in formats}
    return Measured(1_000, dict(seconds), dict(seconds), [4.0], [2.0])


def test_ratios_are_to_sparks_own_connector_and_to_a_plain_client() -> None:
    read, beside, written, once = section._rows(100, measured(OURS, THEIRS))

    assert (read.name, read.ratio, read.met) == ("read, 100 B", 2.0, True)
    assert (beside.name, beside.ratio) == ("read, 100 B, beside confluent-kafka", 4.0)
    assert (written.ratio, written.met) == (2.0, True)
    assert (once.ratio, once.goal) == (0.5, "")


def test_without_the_connector_only_our_figures_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Connector:
        raise NoConnector("there is no Maven to fetch it with")

    monkeypatch.setattr(section, "connector", missing)

    jars, note = section.connector_jars()
    read, _, written, _ = section._rows(1024, measured(OURS))

    assert jars == ""
    assert note == "Spark's own connector is skipped: there is no Maven to fetch it with"
    assert (read.ours, read.reference, read.ratio) == ("1,000/s", "", None)
    assert written.ratio is None


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_reads_and_writes_of_spark_are_measured_on_one_broker(tmp_path: Path) -> None:
    found = section.spark_section(Bench(SMOKE, tmp_path, print))

    assert [row.name.partition(",")[0] for row in found.rows] == [
        "read",
        "read",
        "write",
        "write exactly once",
    ]
    assert all(number > 0 for row in found.rows for number in row.numbers.values())
    assert list(tmp_path.iterdir()) == []
