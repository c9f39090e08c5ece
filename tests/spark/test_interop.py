"""Our format and Spark's own connector, on Barnabas and on Apache Kafka, return the same rows.

Optional: the connector and Apache Kafka are fetched by Maven; where they cannot be had, what needs
them is skipped with the reason.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.bench.spark_connector import NoConnector, connector
from tests.spark.both_formats import OURS, THEIRS
from tests.spark.conftest import create_topic, produce
from tests.support.apache_kafka import apache_kafka
from tests.support.broker import BrokerProcess
from tests.support.kafka_broker import KafkaBroker, running_kafka, running_zookeeper

ROOT: Final = Path(__file__).parent.parent.parent
RUN_WITHIN_S: Final = 900.0
PARTITIONS: Final = 3
RECORDS: Final = 40

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["Barnabas", "Apache Kafka"])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("interop")
    with ExitStack() as running:
        if request.param == "Barnabas":
            broker = BrokerProcess(folder)
            running.callback(broker.close)
            broker.start()
            yield broker.bootstrap
        else:
            zookeeper = running.enter_context(running_zookeeper(apache_kafka(), folder / "zk"))
            kafka = KafkaBroker(zookeeper, folder / "kafka", folder / "data", {})
            running.enter_context(running_kafka(kafka))
            yield kafka.bootstrap


@pytest.fixture(scope="module")
def results(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The result of every query; with Spark's connector where it is available."""
    folder = tmp_path_factory.mktemp("queries")
    create_topic(bootstrap, "filled", PARTITIONS, retention_ms="-1")
    produce(bootstrap, "filled", (record(p, n) for n in range(RECORDS) for p in range(PARTITIONS)))
    pairs = [f"streamed-{one}-{other}" for one in (OURS, THEIRS) for other in (OURS, THEIRS)]
    for topic in (*pairs, f"written-{OURS}", f"written-{THEIRS}"):
        create_topic(bootstrap, topic, PARTITIONS)
    try:
        jars = ",".join(map(str, connector().jars))
    except NoConnector:
        jars = ""
    command = [sys.executable, "-m", "tests.spark.both_formats", bootstrap, str(folder), jars]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_WITHIN_S,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-5_000:]
    read: Results = json.loads((folder / "results.json").read_text())
    return read


def record(partition: int, number: int) -> dict[str, Any]:
    return {
        "partition": partition,
        "key": f"{partition}-{number}" if number % 5 else None,
        "value": f"value {number}" if number % 9 else None,
        "timestamp": 1_000 + 10 * number,
        "headers": [("trace", b"\x00\xff"), ("none", None)] if number % 2 else None,
    }


def needs_connector() -> None:
    try:
        connector()
    except NoConnector as missing:
        pytest.skip(f"no connector of Spark's own to compare with: {missing}")


def test_both_formats_return_the_same_rows_for_every_read(results: Results) -> None:
    needs_connector()
    for name, given in results.items():
        if name.startswith("read "):
            assert given[OURS] == given[THEIRS], name


def test_both_formats_read_the_same_from_what_either_wrote(results: Results) -> None:
    needs_connector()
    written = results["written"]
    assert len(written) == 4
    first = next(iter(written.values()))
    assert len(first) == 200
    for pair, rows in written.items():
        assert rows == first, pair


def test_a_stream_from_either_format_to_either_copies_everything_in_order(results: Results) -> None:
    expected = [
        [p, f"{p}-{n}" if n % 5 else "-"] for p in range(PARTITIONS) for n in range(RECORDS)
    ]
    for pair, rows in results["streamed"].items():
        assert rows == expected, pair


def test_our_format_reads_all_records(results: Results) -> None:
    everything = [
        ["filled", p, n, 0, each["key"], each["value"], each["timestamp"]]
        for p in range(PARTITIONS)
        for n in range(RECORDS)
        for each in [record(p, n)]
    ]

    def those(wanted: Any) -> list[list[Any]]:
        return [row for row in everything if wanted(row[1], row[2])]

    ours = {name: given[OURS] for name, given in results.items() if name.startswith("read ")}
    for name in ("all", "pattern", "in parts", "in small parts"):
        assert ours[f"read {name}"] == everything, name
    assert ours["read assigned"] == those(lambda p, n: p in (0, 2))
    assert ours["read from offsets"] == those(lambda p, n: p == 1 or (p == 0 and n >= 5))
    assert ours["read to offsets"] == those(lambda p, n: p == 1 or (p == 0 and n < 5))
    assert ours["read from a time"] == those(lambda p, n: n >= 10)
    assert ours["read between times"] == those(
        lambda p, n: (p == 0 and 10 <= n < 20) or (p == 1 and n == 0) or (p == 2 and n == 39)
    )
    assert ours["read filtered"] == those(lambda p, n: p == 1 and n < 7)
