"""Project files: `init`, `list`, and the errors of invalid projects."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.project.project_files import create, find
from barnabas.spark.project.project_run import Flow, ProjectUpdates, UserCode
from barnabas.spark.source.stream_offset import lag_of
from tests.spark.commands import barnabas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Source:
    """A source in the progress of a query."""

    def __init__(self, end: str | None, latest: str | None) -> None:
        self.endOffset = end
        self.latestOffset = latest


def test_init_writes_a_project_that_can_be_found_again(tmp_path: Path) -> None:
    ended = barnabas("pipeline", "init", tmp_path / "shop", "--topic", "sales", "-b", "host:1234")
    assert ended.code == 0, ended.err

    project = find(tmp_path / "shop")
    assert (project.name, project.storage) == ("shop", (tmp_path / "shop" / "storage").as_uri())
    assert project.configuration["barnabas.bootstrap"] == "host:1234"
    assert [path.name for path in project.transformations] == ["read.py", "revenue.sql", "write.py"]
    for path in project.transformations:
        if path.suffix == ".py":
            compile(path.read_text(), path, "exec")
    assert '"subscribe", "sales"' in (tmp_path / "shop/transformations/read.py").read_text()
    assert '"topic": "shop-revenue"' in (tmp_path / "shop/transformations/write.py").read_text()


def test_the_sample_of_a_project_is_json_as_its_transformation_reads_it(tmp_path: Path) -> None:
    create(tmp_path / "shop", "orders", None, "host:1")
    lines = (tmp_path / "shop/sample.jsonl").read_text().splitlines()
    orders = [json.loads(line) for line in lines]
    assert [sorted(order) for order in orders] == [["category", "cents", "time"]] * 120


def test_init_does_not_change_an_existing_directory(tmp_path: Path) -> None:
    ended = barnabas("pipeline", "init", tmp_path)
    assert (ended.code, list(tmp_path.iterdir())) == (1, [])
    assert "already exists" in ended.err
    assert barnabas("pipeline", "init", tmp_path / "1 2").code == 2


def test_list_shows_projects_and_what_is_ready(tmp_path: Path) -> None:
    create(tmp_path / "shop", "orders", None, "host:1")
    shown = barnabas("pipeline", "list", tmp_path).out
    assert "archive" in shown
    assert f"shop     {tmp_path / 'shop'}" in shown

    listed = json.loads(barnabas("pipeline", "list", tmp_path, "--json").out)
    [project] = listed["projects"]
    assert project["transformations"][1] == "transformations/revenue.sql"
    assert {"archive", "replay", "mirror", "transform", "audit"} == {*listed["ready"]}


def test_list_reports_a_broken_project_after_the_valid_ones(tmp_path: Path) -> None:
    create(tmp_path / "whole", "orders", None, "host:1")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "spark-pipeline.yml").write_text("name: x")
    ended = barnabas("pipeline", "list", tmp_path)
    assert (ended.code, "whole" in ended.out) == (1, True)
    assert "`storage` is missing" in ended.err


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("a: [", "while parsing"),
        ("[]", "expected `name: ...`"),
        ("name: x\nstorage: 5", "`storage` is missing or not a string"),
        ("name: x\nstorage: y\nconfiguration: z", "`configuration` must be a mapping"),
        ("name: x\nstorage: y\nlibraries: [z]", "each of `libraries` must be"),
    ],
)
def test_an_invalid_spec_is_reported_in_one_sentence(tmp_path: Path, spec: str, said: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    ended = barnabas("pipeline", "run", tmp_path)
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert said in ended.err


def test_a_directory_without_a_spec_is_not_a_project(tmp_path: Path) -> None:
    ended = barnabas("pipeline", "run", tmp_path)
    assert ended.code == 1
    assert "it has no spark-pipeline.yml" in ended.err


def test_full_refresh_all_excludes_other_refreshes(tmp_path: Path) -> None:
    assert barnabas("pipeline", "run", tmp_path, "--full-refresh-all", "--refresh", "x").code == 2


def test_an_error_of_a_transformation_names_its_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 + 1\nundefined\n")
    expected = r"broken\.py line 2: NameError: name 'undefined'"
    with pytest.raises(CommandFailed, match=expected), UserCode(tmp_path):
        exec(compile(file.read_text(), str(file), "exec"))


def test_lag_is_the_number_of_offsets_between_a_query_and_the_ends_of_its_topics() -> None:
    end = '{"a": {"id": null, "partitions": {"0": {"offset": 5, "leaderEpoch": 0}}}}'
    latest = (
        '{"a": {"id": null, "partitions": {"0": {"offset": 9, "leaderEpoch": 0},'
        ' "1": {"offset": 3, "leaderEpoch": 0}}}}'
    )
    assert lag_of([Source(end, latest)]) == 4 + 3
    assert lag_of([Source('{"a": {"0": 5}}', '{"a": {"0": 9}}')]) == 4
    assert lag_of([Source(end, None), Source("7", "9"), Source(None, latest)]) is None


class Told:
    """The progress of a streaming query, as Spark reports it."""

    def __init__(self, name: str, records: int, sources: list[Source]) -> None:
        self.name = name
        self.numInputRows = records
        self.sources = sources


def test_updates_count_the_progress_of_each_flow(tmp_path: Path) -> None:
    create(tmp_path / "shop", "orders", None, "host:1")
    updates = ProjectUpdates(cast("SparkSession", None), find(tmp_path / "shop"))
    latest = Source('{"a": {"0": 5}}', '{"a": {"0": 9}}')
    updates.on_progress(Told("spark_catalog.default.kept", 5, [latest]))
    updates.on_progress(Told("spark_catalog.default.kept", 2, []))
    updates.on_event("Flow 'spark_catalog.default.kept' has FAILED.")
    assert updates.flows == {"kept": Flow("kept", "FAILED", 7, 2, 4)}

    updates.on_event("Flow spark_catalog.default.kept is RUNNING.")
    assert (updates.flows["kept"].state, updates.records) == ("RUNNING", 7)


def test_a_run_that_failed_says_why_the_last_query_did(tmp_path: Path) -> None:
    create(tmp_path / "shop", "orders", None, "host:1")
    updates = ProjectUpdates(cast("SparkSession", None), find(tmp_path / "shop"))
    updates.on_failed(
        "[STREAM_FAILED] Query terminated: barnabas.spark.user_errors.Lost: no topic x"
    )
    with pytest.raises(CommandFailed, match=r"^shop: no topic x$"):
        updates.on_event("Run is FAILED since flow 'kept' has failed more than 2 times.")
