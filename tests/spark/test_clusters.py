"""Every pipeline on a Spark cluster, by its master and through Spark Connect."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.spark.conftest import create_topic, produce
from tests.spark.connect_server import connect_server
from tests.spark.copying import EXECUTORS
from tests.spark.spark_home import spark_home
from tests.spark.written import topics_of, values
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

# Spark starts for every command, with executors of its own or as a client of the server.
pytestmark = [pytest.mark.long, pytest.mark.timeout(3_000)]

ENDED_WITHIN_S: Final = 1_200.0
# The defaults of a cluster are for data of another size: 200 tasks to sum up 120 records.
SMALL: Final = (
    *("--conf", "spark.executor.memory=512m"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
)

Pipeline = Callable[..., Any]


@pytest.fixture(scope="module", params=["--master", "--remote"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ...]]:
    """The options that say where Spark runs."""
    if request.param == "--master":
        yield ("--master", EXECUTORS, *SMALL)
        return
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield ("--remote", address)


def command(folder: Path, broker: BrokerProcess, *arguments: object) -> "subprocess.Popen[str]":
    home = folder / "spark-home"
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", "pipeline", *map(str, arguments)],
        cwd=folder,
        env={
            **os.environ,
            "BARNABAS_BOOTSTRAP": broker.bootstrap,
            "TMPDIR": str(folder),
            "SPARK_HOME": str(home if home.exists() else spark_home(folder)),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def pipeline(served: BrokerProcess, place: tuple[str, ...], tmp_path: Path) -> Pipeline:
    """The JSON output of a successful command of `barnabas pipeline`."""

    def run(*arguments: object) -> Any:
        process = command(tmp_path, served, *arguments, "--json", *place)
        out, err = process.communicate(timeout=ENDED_WITHIN_S)
        assert process.returncode == 0, err
        return json.loads(out)

    return run


def fill(broker: BrokerProcess, topic: str, start: int = 0) -> None:
    records = (
        {"key": str(n), "value": json.dumps({"id": n}), "partition": n % 2}
        for n in range(start, start + 50)
    )
    produce(broker.bootstrap, topic, records)


def test_archive_replay_and_audit(
    pipeline: Pipeline, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic, 2)
    fill(served, topic)
    archive = tmp_path / "archive"

    assert pipeline("archive", topic, "--to", archive)["records"] == 50
    replayed = pipeline("replay", topic, "--from", archive, "--to", f"{topic}-again")
    assert replayed["records"] == 50
    assert values(served.bootstrap, f"{topic}-again") == values(served.bootstrap, topic)
    audited = pipeline("audit", served.data, "--topic", topic, "--archive", archive)
    assert audited["findings"] == []


def test_a_mirror_copies_every_record(
    pipeline: Pipeline, served: BrokerProcess, topic: str
) -> None:
    create_topic(served.bootstrap, topic, 2)
    fill(served, topic)

    assert pipeline("mirror", topic, "--to", served.bootstrap, "--prefix", "copy.")["records"] == 50
    assert values(served.bootstrap, f"copy.{topic}") == values(served.bootstrap, topic)


def test_a_transformation_writes_what_its_sql_selects(
    pipeline: Pipeline, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic, 2)
    fill(served, topic)
    table = topic.replace("-", "_")
    wanted = ("--schema", "id BIGINT", "--sql", f"SELECT id FROM {table} WHERE id < 40")

    told = pipeline(
        *("transform", topic, "--to", f"{topic}-out", "--state", tmp_path / "state", *wanted)
    )

    assert (told["records"], told["results"], told["bad"]) == (50, 40, 0)
    found = sorted(json.loads(each)["id"] for each in values(served.bootstrap, f"{topic}-out"))
    assert found == list(range(40))


def test_a_project_runs(
    pipeline: Pipeline, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    created = command(tmp_path, served, "init", "shop", "--topic", topic, "--to", f"{topic}-out")
    assert created.communicate()[1] == ""
    create_topic(served.bootstrap, topic)
    create_topic(served.bootstrap, f"{topic}-out")
    sample = (tmp_path / "shop/sample.jsonl").read_text().splitlines()
    produce(served.bootstrap, topic, [{"value": line} for line in sample])

    for records in (len(sample), 0):
        flows = {each["flow"]: each for each in pipeline("run", "shop")["flows"]}
        assert flows["publish"]["records"] == records
        assert {each["state"] for each in flows.values()} == {"completed"}


def ended(process: "subprocess.Popen[str]") -> Any:
    """The JSON output of a command that Ctrl-C ends."""
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=ENDED_WITHIN_S)
    assert process.returncode == 130, err
    return json.loads(out)


@pytest.mark.parametrize("kind", ["archive", "mirror", "transform"])
def test_continuous_pipelines_process_new_records_until_ctrl_c(
    kind: str, place: tuple[str, ...], served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic, 2)
    fill(served, topic)
    sql = f"SELECT key, value FROM {topic.replace('-', '_')}"
    more = {
        "archive": ("--to", tmp_path / "archive"),
        "mirror": ("--to", served.bootstrap, "--prefix", "ever."),
        "transform": ("--to", f"{topic}-out", "--state", tmp_path / "state", "--sql", sql),
    }

    def count() -> int:
        if kind == "archive":
            return archived(tmp_path / "archive" / "_manifest.json", topic)
        name = f"ever.{topic}" if kind == "mirror" else f"{topic}-out"
        return len(values(served.bootstrap, name)) if name in topics_of(served.bootstrap) else 0

    always = ("--continuous", "--every", "1", "--json")
    process = command(tmp_path, served, kind, topic, *more[kind], *always, *place)
    try:
        until(lambda: process.poll() is not None or count() == 50, kind, ENDED_WITHIN_S)
        fill(served, topic, 50)
        until(lambda: process.poll() is not None or count() == 100, kind, ENDED_WITHIN_S)
        # The last step may have been ended when all was written, before it was counted.
        assert ended(process)["records"] >= 50
    finally:
        process.kill()


def archived(manifest: Path, topic: str) -> int:
    if not manifest.exists():
        return 0
    partitions = json.loads(manifest.read_text())["topics"][topic]["partitions"]
    return sum(int(each["records"]) for each in partitions.values())


def test_a_project_runs_continuously(
    place: tuple[str, ...], served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    command(
        tmp_path, served, "init", "shop", "--topic", topic, "--to", f"{topic}-out"
    ).communicate()
    create_topic(served.bootstrap, topic)
    create_topic(served.bootstrap, f"{topic}-out")
    sample = (tmp_path / "shop/sample.jsonl").read_text().splitlines()
    produce(served.bootstrap, topic, [{"value": line} for line in sample])
    later = json.dumps(json.loads(sample[-1]) | {"time": "2030-01-01T00:00:00Z"})

    def windows() -> int:
        return len(values(served.bootstrap, f"{topic}-out"))

    always = ("--continuous", "--every", "1", "--json")
    process = command(tmp_path, served, "run", "shop", *always, *place)
    try:
        until(lambda: process.poll() is not None or windows() > 0, "windows", ENDED_WITHIN_S)
        before = windows()
        # The first moves the watermark, and what is older than that comes out.
        produce(served.bootstrap, topic, [{"value": later}])
        until(lambda: process.poll() is not None or windows() > before, "more", ENDED_WITHIN_S)
        told = ended(process)
    finally:
        process.kill()
    [publish] = [each for each in told["flows"] if each["flow"] == "publish"]
    assert publish["records"] == len(sample) + 1
