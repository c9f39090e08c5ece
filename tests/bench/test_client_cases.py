"""The cases of `bench compare --clients`."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from barnabas.bench import sections
from barnabas.bench.bench_command import app
from barnabas.bench.clusters.bench_topics import log_end_offset
from barnabas.bench.compare import client_cases, compare_clients, compare_run, kafka_release
from barnabas.bench.compare.client_cases import BASE, KIP_848, SKEWED, SMALL, Client, Data, messages
from barnabas.bench.compare.client_driver import Driver, Unavailable
from barnabas.bench.compare.client_registry import CLIENTS, find, named
from barnabas.bench.compare.compare_cases import FULL_BYTES, Case, CaseMetric, Effort
from barnabas.bench.compare.compare_run import Compared, Comparison
from barnabas.bench.compare.compare_sites import Site
from barnabas.bench.compare.kafka_release import find_kafka
from barnabas.bench.server_processes import broker

FULL = Effort(3, FULL_BYTES, 4.0, 0, 2.0)
LITTLE = Effort(1, FULL_BYTES // 1000, 0.1, 0, 0.0)
RATE = CaseMetric("rate", "MB/s", client="aiokafka")


def asked(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["compare", *arguments])


def cases(*drivers: Driver) -> list[Case]:
    return client_cases.client_cases(drivers, Data())


def test_clients_are_given_by_name_in_any_case_or_as_all() -> None:
    assert named("KAFKAJS, java,") == ["Java", "kafkajs"]
    assert named("all") == list(CLIENTS)


@pytest.mark.parametrize("text", ["sarama", "java,sarama", " , "])
def test_an_unknown_client_is_rejected_with_the_known_ones(text: str) -> None:
    refused = asked("--clients", text)
    assert refused.exit_code == 2
    assert "kafka-python" in refused.output
    assert "processor" not in refused.output


def test_each_client_has_a_function_that_returns_its_driver() -> None:
    drivers, missing = find(["librdkafka", "aiokafka", "kafka-python"])
    assert [driver.name for driver in drivers] + list(missing) == [
        "librdkafka",
        "aiokafka",
        "kafka-python",
    ]


def test_every_client_has_the_same_rows_except_unsupported_ones() -> None:
    new = frozenset({"classic", "consumer"})
    first, second = Driver("a", ()), Driver("b", (), protocols=new, latencies=("mean",))
    rows = [(row.client, row.name) for case in cases(first, second) for row in case.metrics]
    assert len(set(rows)) == len(rows)
    of_first = {name for client, name in rows if client == "a"}
    of_second = {name for client, name in rows if client == "b"}
    of_kip_848 = {KIP_848, f"{KIP_848}: client's CPU"}
    assert of_second - of_first == {*of_kip_848, "end-to-end latency, mean"}
    assert of_first - of_second == {"end-to-end latency, p50", "end-to-end latency, p99"}


def test_cases_of_one_kind_are_grouped() -> None:
    keys = [case.key.partition(": ") for case in cases(Driver("a", ()), Driver("b", ()))]
    assert [client for client, _, _ in keys] == ["a", "b"] * (len(keys) // 2)


def test_a_slow_client_sends_fewer_messages_but_some() -> None:
    assert messages(BASE, FULL, "Java") == 150_000
    assert messages(BASE, FULL, "kafka-python") == 45_000
    assert messages(SKEWED, FULL, "Java") == 30_000
    assert messages(SMALL, LITTLE, "kafka-python") == client_cases.FEWEST_MESSAGES


def test_a_fast_client_measures_several_times_and_the_median_counts() -> None:
    class Thrice(Effort):
        def has_time(self, took_s: Sequence[float]) -> bool:
            return len(took_s) < 3

    values = iter([3.0, 1.0, 2.0])
    effort = Thrice(1, FULL_BYTES, 0.1, 0, 0.0)
    turns = client_cases.in_turns(lambda *_: (next(values), 1.0), Site(""), effort)
    figures = [next(turns) for _ in range(3)]
    assert figures == [(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)], "the other goes on after each"
    with pytest.raises(StopIteration) as found:
        next(turns)
    assert found.value.value == [2.0, 1.0]


def test_nine_of_ten_messages_go_to_one_partition_and_the_rest_to_all_others() -> None:
    found = Counter(SKEWED.target(turn) for turn in range(500))
    assert found == {0: 450, **dict.fromkeys(range(1, 6), 10)}


def test_topics_to_read_are_written_once_and_deleted_from_external_clusters(
    tmp_path: Path,
) -> None:
    data = Data()
    with broker(tmp_path) as server:
        site = Site(server.bootstrap)
        name = data.topic(site, BASE, LITTLE)
        assert data.topic(site, BASE, LITTLE) == name
        assert log_end_offset(server.bootstrap, name, BASE.partitions) == 3000
        other = data.topic(site, BASE, LITTLE, "another use")
        assert other != name
        data.delete()
        again = Data().topic(site, SKEWED, LITTLE)
        assert log_end_offset(server.bootstrap, again, 1) == 2500


def test_a_row_of_the_clients_cpu_time_is_beside_each_reading_and_has_no_goal() -> None:
    (case,) = (each for each in cases(Driver("a", ())) if each.key == "a: consume, 6 partitions")
    assert [(row.name, row.unit, row.goal, row.detail) for row in case.metrics] == [
        ("consume, 6 partitions", "MB/s", 1.0, False),
        ("consume, 6 partitions: client's CPU", "s/GB", None, True),
    ]


def test_the_clients_cpu_time_is_that_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    spends = "import json; sum(range(3_000_000)); print(json.dumps(dict(messages=500, seconds=2)))"
    monkeypatch.setattr(Data, "topic", lambda *_: "t")
    client = Client(Driver("a", (sys.executable, "-c", spends)), Data())
    rate, cpu = client.consumed(BASE, Site("nowhere"), LITTLE)
    assert rate == 0.25
    # Of 500 KB; a sum of three million takes some hundredths of a second.
    assert 0.01 < cpu * 500e3 / 1e9 < 5.0


def test_a_cluster_without_kip_848_groups_is_measured_with_a_classic_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    specs: list[dict[str, Any]] = []

    def run(_: Driver, spec: dict[str, Any]) -> dict[str, Any]:
        specs.append(spec)
        return {"messages": 10, "seconds": 1.0, "cpu_s": 0.1}

    monkeypatch.setattr(client_cases, "run", run)
    monkeypatch.setattr(client_cases, "has_consumer_groups", lambda bootstrap: bootstrap == "new")
    monkeypatch.setattr(Data, "topic", lambda *_: "t")
    client = Client(Driver("a", ()), Data())
    for bootstrap in ("new", "old"):
        client.consumed_in_new_protocol(Site(bootstrap), LITTLE)
    assert [spec["protocol"] for spec in specs] == ["consumer", "classic"]


@pytest.mark.parametrize(
    ("arguments", "interrupted", "written"),
    [
        (["--clients", "all"], False, ["bench/results/clients.json"]),
        (["--clients", "all"], True, []),
        (["--clients", "aiokafka"], False, []),
        (["--clients", "aiokafka", "--results", "there"], False, ["there/clients.json"]),
        (["--clients", "all", "--only", "latency"], False, []),
        (["--clients", "all", "--quick"], False, []),
    ],
)
def test_only_a_whole_run_of_all_clients_replaces_the_results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    interrupted: bool,
    written: list[str],
) -> None:
    found = Comparison("ours", "theirs", [Compared(RATE, [2.0], [1.0])], [], interrupted)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kafka_release, "find_kafka", lambda: None)
    monkeypatch.setattr(compare_run, "compare", lambda *_: found)
    monkeypatch.setattr("barnabas.bench.compare.compare_latency.idle_delay_ms", lambda _: 1.0)
    one = [Driver("aiokafka", ())], {"franz-go": Unavailable("go not found")}
    monkeypatch.setattr(compare_clients, "find", lambda _: one)
    told = asked(*arguments)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")] == written
    assert "skipped: franz-go (go not found)" in told.output


def test_without_an_available_client_the_command_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_release, "find_kafka", lambda: None)
    none = list[Driver](), {"franz-go": Unavailable("go not found")}
    monkeypatch.setattr(compare_clients, "find", lambda _: none)
    told = asked("--clients", "franz-go")
    assert "skipped: franz-go (go not found)" in told.output
    assert str(told.exception) == "none of these clients is available"


def test_without_kafka_the_sections_on_clients_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(names: list[str], *_: object, goals: bool) -> sections.SectionResults:
        ran.extend(names)
        return sections.SectionResults([], [])

    monkeypatch.setattr(kafka_release, "find_kafka", lambda: Unavailable("no network"))
    monkeypatch.setattr(sections, "run", run)
    told = asked("--clients", "all")
    assert told.exit_code == 0, told.output
    assert ran == ["clients", "latency"]


def test_full_cannot_be_used_with_clients() -> None:
    refused = asked("--clients", "all", "--full")
    assert refused.exit_code == 2
    assert "--full cannot be used with --clients" in refused.output


def test_two_addresses_are_compared_with_a_client_and_keep_no_topic(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    with broker(tmp_path, "group.initial.rebalance.delay.ms=0") as server:
        both = ("--bootstrap", server.bootstrap, "--bootstrap", f"localhost:{server.port}")
        told = asked(
            *both, "--quick", "--clients", "librdkafka", "--only", "skewed,latency,at once,old",
            "--results", str(tmp_path / "r"),
        )  # fmt: skip
        assert told.exit_code != 0, "no case is called skewed"
        told = asked(
            *both, "--quick", "--clients", "librdkafka", "--only", "three,at once,old,KIP",
            "--results", str(tmp_path / "r"),
        )  # fmt: skip
        topics = AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=20).topics
    assert told.exit_code == 0, told.output
    rows = json.loads((tmp_path / "r" / "clients.json").read_text())["rows"]
    assert Counter(row["unit"] for row in rows) == {"MB/s": 5, "s/GB": 2}
    assert all(row["ours"][0] > 0 and row["theirs"][0] > 0 for row in rows)
    assert [name for name in topics if not name.startswith("__")] == []


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_every_client_runs_every_case_on_barnabas_and_on_apache_kafka(tmp_path: Path) -> None:
    if isinstance(find_kafka(), Unavailable):
        pytest.skip("no Apache Kafka to compare with")
    told = asked("--quick", "--clients", "all", "--results", str(tmp_path))
    assert told.exit_code == 0, told.output
