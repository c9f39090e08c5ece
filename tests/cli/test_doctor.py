"""`barnabas doctor` on real clusters in bad states, and on bad machines."""

import json
import re
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from barnabas.cli import raw_client
from barnabas.cli.doctor import broker_checks, machine_checks
from barnabas.cli.doctor.broker_checks import check_log_dirs
from barnabas.cli.doctor.cluster_checks import Part, check_controller, check_leaders, check_min_isr
from barnabas.cli.doctor.machine_checks import check_descriptors, check_log_dir, decide_space
from barnabas.cli.raw_client import ask_cluster
from barnabas.testing import Cluster
from tests.cli.conftest import Barnabas
from tests.support.broker import BrokerProcess
from tests.support.documents import SOURCE, document, rows
from tests.support.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"min.insync.replicas": "2", "auto.leader.rebalance.enable": "false"}
    with Cluster(3, config=config) as cluster:
        cluster.create_topic("orders", partitions=3)
        yield cluster


def checked(offline: Barnabas, *arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit code, and the findings by their check."""
    ended = offline("doctor", "--json", *arguments)
    assert ended.err == ""
    return ended.code, {each["check"]: each for each in json.loads(ended.out)["findings"]}


# -- clusters -----------------------------------------------------------------


def test_a_healthy_cluster_has_no_problem(cluster: Cluster, offline: Barnabas) -> None:
    ended = offline("doctor", "-b", cluster.bootstrap_servers)
    assert ended.code == 0
    assert not any(line.startswith("problem ") for line in ended.lines)


def test_a_cluster_with_dead_brokers_is_described_until_they_are_back(
    cluster: Cluster, offline: Barnabas
) -> None:
    cluster.kill(1)
    cluster.wait_for_isr("orders", isr={0, 2})
    code, found = checked(offline, "-b", cluster.address(0))
    assert code == 1
    assert next(iter(found)) == "down"
    assert found["down"]["what"].startswith("broker 1 is down")
    assert "start broker 1" in found["under-replicated"]["todo"]
    assert "min-isr" not in found
    cluster.restart(1)
    for partition in range(3):
        cluster.wait_for_isr("orders", partition)
    code, found = checked(offline, "-b", cluster.bootstrap_servers)
    assert "broker 1" in found["balance"]["what"]
    _run_the_remedy(offline, found["balance"], cluster)
    assert "balance" not in checked(offline, "-b", cluster.bootstrap_servers)[1]


def _run_the_remedy(offline: Barnabas, finding: dict[str, Any], cluster: Cluster) -> None:
    (remedy,) = re.findall(r"`barnabas ([^`]+)`", finding["todo"])
    assert offline(*remedy.split(), "-b", cluster.bootstrap_servers).code == 0


def test_a_wrong_advertised_listener_is_an_address_that_clients_do_not_reach(
    offline: Barnabas, fresh_broker: Any
) -> None:
    broker: BrokerProcess = fresh_broker("advertised.listeners=PLAINTEXT://127.0.0.1:1")
    code, found = checked(offline, "-b", broker.bootstrap)
    assert code == 1
    assert "advertises 127.0.0.1:1," in found["listeners"]["what"]
    assert "advertised.listeners" in found["listeners"]["todo"]


def test_a_paused_broker_takes_connections_and_answers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raw_client, "_REQUEST_TIMEOUT_S", 0.3)
    with Cluster(2) as cluster:
        cluster.pause(1)
        (found,) = ask_cluster(cluster.address(0), lambda client: check_log_dirs(client, [0, 1]))
        cluster.resume(1)
    assert "broker 1 is connected to, but does not answer" in found.what
    assert "paused" in found.todo


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_whose_member_does_not_join_again_is_stuck(
    cluster: Cluster, offline: Barnabas, protocol: str
) -> None:
    def member(name: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": f"billing-{protocol}",
                "group.protocol": protocol,
                "client.id": name,
            }
        )
        # With a callback the client joins again only when it is polled.
        consumer.subscribe(["orders"], on_assign=lambda *_: None, on_revoke=lambda *_: None)
        return consumer

    hanging = member("hanging")
    until(lambda: hanging.poll(0.1) is not None or bool(hanging.assignment()))
    other = member("other")
    ended = threading.Event()
    polling = threading.Thread(target=lambda: _poll_until(other, ended))
    polling.start()
    try:
        until(lambda: "groups" in checked_groups(offline, cluster))
        found = checked_groups(offline, cluster)["groups"]
        assert f"group billing-{protocol} with 2 members" in found["what"]
        assert "hanging at" in found["what"]
        assert "max.poll.interval.ms" in found["todo"]
    finally:
        ended.set()
        polling.join()
        other.close()
        hanging.close()


def _poll_until(consumer: Consumer, ended: threading.Event) -> None:
    while not ended.is_set():
        consumer.poll(0.1)


def checked_groups(offline: Barnabas, cluster: Cluster) -> dict[str, Any]:
    return checked(offline, "-b", cluster.bootstrap_servers, "--patience", 1)[1]


def test_a_transaction_that_nobody_will_end_is_found_and_its_remedy_ends_it(
    offline: Barnabas, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(1) as hung:
        hung.create_topic("payments")
        hung.hang_transaction("payments")
        monkeypatch.setattr(broker_checks, "_LONGEST_TRANSACTION_MINUTES", 0)
        until(lambda: "transactions" in checked(offline, "-b", hung.bootstrap_servers)[1])
        code, found = checked(offline, "-b", hung.bootstrap_servers)
        assert code == 1
        assert "payments-0" in found["transactions"]["what"]
        _run_the_remedy(offline, found["transactions"], hung)
        until(lambda: "transactions" not in checked(offline, "-b", hung.bootstrap_servers)[1])


def test_an_address_without_a_broker_is_a_problem(offline: Barnabas) -> None:
    code, found = checked(offline, "-b", "127.0.0.1:1")
    assert code == 1
    assert "no Kafka broker answers" in found["bootstrap"]["what"]


def test_partitions_without_a_leader_name_the_brokers_to_start() -> None:
    parts = [Part("orders", 0, -1, (1, 2), (1,)), Part("orders", 1, 0, (0, 1), (0,))]
    (found,) = check_leaders(parts, [0])
    assert ("orders-0" in found.what, "orders-1" in found.what) == (True, False)
    assert "start brokers 1, 2" in found.todo
    (found,) = check_min_isr(parts, {"orders": 2})
    assert "2 partitions" in found.what


def test_a_cluster_without_a_controller_is_a_problem() -> None:
    assert not list(check_controller(0, [0, 1]))
    (found,) = check_controller(-1, [0, 1])
    assert found.level == "problem"


# -- the machine --------------------------------------------------------------


def test_without_java_spark_does_not_start_but_a_broker_does(
    offline: Barnabas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("BARNABAS_BOOTSTRAP", raising=False)
    code, found = checked(offline)
    assert code == 0
    assert found["java"]["level"] == "warning"
    assert "Java 17" in found["java"]["todo"]


def test_a_java_that_is_too_old_is_named(
    offline: Barnabas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "is Java 8" in checked(offline)[1]["java"]["what"]


def test_a_low_limit_of_descriptors_is_a_warning() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        (found,) = check_descriptors()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "may open 1024 files" in found.what


def test_a_default_port_that_is_taken_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(machine_checks, "_DEFAULT_PORT", taken.getsockname()[1])
        (found,) = machine_checks.check_default_port()
    assert "is not free" in found.what
    assert "--listen HOST:PORT" in found.todo
    assert not list(machine_checks.check_default_port())


def test_a_log_directory_of_a_newer_release_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("broker.id=0\nversion=7\n")
    (found,) = (each for each in check_log_dir(tmp_path) if each.check == "data")
    assert "version=7" in found.what


def test_a_disk_with_little_space_is_a_problem() -> None:
    found = decide_space("/data", 1 << 40, 1 << 20)
    assert found is not None
    assert "1.0 MiB free of 1.0 TiB" in found.what
    assert decide_space("/data", 1 << 40, 1 << 39) is None


def test_the_findings_are_text_with_what_to_do(offline: Barnabas, tmp_path: Path) -> None:
    ended = offline("doctor", "--data", tmp_path / "absent")
    assert ended.code == 1
    assert any(line.startswith("problem  data: ") for line in ended.lines)
    assert "         do: correct --data" in ended.lines


def test_json_says_whether_a_cluster_was_checked(
    cluster: Cluster, offline: Barnabas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BARNABAS_BOOTSTRAP", raising=False)
    assert json.loads(offline("doctor", "--json").out)["cluster"] is None
    named = offline("doctor", "--json", "-b", cluster.bootstrap_servers)
    assert json.loads(named.out)["cluster"] == cluster.bootstrap_servers


def test_the_document_lists_every_check() -> None:
    named = re.compile(r"(?:problem|warning|unchecked)\(\s*\"([\w-]+)\"")
    sources = (SOURCE / "cli" / "doctor").glob("*.py")
    checks = {name for path in sources for name in named.findall(path.read_text())}
    listed = [row[0] for row in rows(document("docs/cli.md"), "Check | Finds")]
    assert {name for cell in listed for name in re.findall(r"`([\w-]+)`", cell)} == checks
