"""A cluster's folder: its files, whom it is refused to, and the ports."""

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.cluster.cluster_dir import (
    METRICS_PORTS_ABOVE,
    BrokerFiles,
    ClusterFolder,
    choose_metrics_ports,
    choose_ports,
)
from barnabas.cli.cluster.cluster_properties import Choices, broker_properties, check_overrides
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import parse_properties, read_properties


def written(brokers: int, **overrides: str) -> dict[str, str]:
    given = {key.replace("_", "."): value for key, value in overrides.items()}
    choices = Choices(brokers, "127.0.0.1:2181/x", given)
    return parse_properties(broker_properties(choices, 2, 9094, Path("/d/data"), Path("/d/p")))


def test_a_broker_gets_its_number_address_folder_and_zookeeper() -> None:
    properties = written(3)
    assert properties["broker.id"] == "2"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9094"
    assert properties["log.dirs"] == "/d/data"
    assert properties["zookeeper.connect"] == "127.0.0.1:2181/x"
    config = BrokerConfig.from_properties(properties)
    assert (config.warnings, config.not_acted_on()) == ((), [])


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (5, "3", "2")]
)
def test_there_are_as_many_copies_as_the_brokers_allow(
    brokers: int, copies: str, in_sync: str
) -> None:
    properties = written(brokers)
    assert properties["default.replication.factor"] == copies
    assert properties["offsets.topic.replication.factor"] == copies
    assert properties["min.insync.replicas"] == in_sync


def test_an_override_takes_the_place_of_a_default() -> None:
    assert written(3, min_insync_replicas="3", num_partitions="6")["min.insync.replicas"] == "3"
    assert written(3, num_partitions="6")["num.partitions"] == "6"


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("broker.id", "7", "--brokers decides it"),
        ("listeners", "PLAINTEXT://:1", "--base-port decides it"),
        ("log.dirs", "/tmp", "--data decides it"),
        ("zookeeper.connect", "x:1", "--zookeeper decides it"),
        ("num.partitions", "many", "num.partitions"),
    ],
)
def test_an_override_that_no_broker_can_have_is_refused(key: str, value: str, told: str) -> None:
    with pytest.raises(Misused, match=told):
        check_overrides({key: value})


@pytest.mark.parametrize("value", ["a=b:c", "\\:", "a\\\\=b", " x", "#1"])
def test_whatever_an_override_contains_is_read_back(value: str) -> None:
    assert written(3, some_key=value)["some.key"] == value


def test_a_brokers_files_are_where_the_manual_says(tmp_path: Path) -> None:
    files = BrokerFiles(1, 9093, tmp_path)
    files.write(Choices(3, "127.0.0.1:2181", {}))
    assert files.pid == tmp_path / "broker-1.pid"
    assert read_properties(tmp_path / "broker-1" / "server.properties")["broker.id"] == "1"
    assert (files.address, files.is_in_use) == ("127.0.0.1:9093", False)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ClusterFolder]:
    folder = ClusterFolder(tmp_path / "cluster")
    yield folder
    folder.close()


def test_a_folder_is_for_one_cluster_at_a_time(folder: ClusterFolder) -> None:
    folder.open()
    other = ClusterFolder(folder.path)
    with pytest.raises(CommandFailed, match=rf"in use by another .* \(pid {os.getpid()}\)"):
        other.open()
    folder.close()
    other.open()
    other.close()


def test_pid_files_of_what_has_ended_are_forgotten(folder: ClusterFolder) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder.path.mkdir()
    # This process lives, but it is no broker of this folder: its number was given anew.
    for name, text in {"broker-0": ended.pid, "broker-1": os.getpid(), "zookeeper": ""}.items():
        (folder.path / f"{name}.pid").write_text(f"{text}\n")
    folder.open()
    assert list(folder.path.glob("*.pid")) == []


def test_what_still_runs_of_an_earlier_run_is_named(folder: ClusterFolder) -> None:
    folder.path.mkdir()
    config = f"{folder.path}/broker-1/server.properties"
    waiting = [sys.executable, "-c", "input('up')", "server", "--config", config]
    pipe = subprocess.PIPE
    with subprocess.Popen(waiting, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(2)  # a process has no command line for a moment after its start
            (folder.path / "broker-1.pid").write_text(f"{process.pid}\n")
            told = rf"broker-1 \(pid {process.pid}\); end it with: kill {process.pid}$"
            with pytest.raises(CommandFailed, match=told):
                folder.open()
        finally:
            process.kill()
    folder.open()


def test_a_broker_started_by_hand_is_noticed(folder: ClusterFolder) -> None:
    data = folder.path / "broker-0" / "data"
    data.mkdir(parents=True)
    with (data / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CommandFailed, match=r"broker 0 .* runs already, started by hand"):
            folder.open()
    folder.open()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misused, match="this is a file, a folder is needed"):
        ClusterFolder(tmp_path / "file").open()


def test_the_data_of_a_single_broker_is_not_taken_for_the_folder_of_a_cluster(
    tmp_path: Path,
) -> None:
    (tmp_path / "meta.properties").write_text("version=0\n")
    with pytest.raises(Misused, match="holds the data of a single broker"):
        ClusterFolder(tmp_path).open()
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_brokers_of_an_earlier_and_larger_cluster_are_told(folder: ClusterFolder) -> None:
    for name in ("broker-0", "broker-2", "broker-10", "broker-x"):
        (folder.path / name).mkdir(parents=True)
    assert folder.left_out(2) == ["2", "10"]


def test_ports_follow_the_first_or_are_any_that_are_free() -> None:
    ports = choose_ports(0, 3)
    assert len(set(ports)) == 3
    assert choose_ports(ports[0], 1) == ports[:1]


def test_ports_for_metrics_lie_above_those_for_clients_or_anywhere_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        above: int = taken.getsockname()[1]
        ports = [above - METRICS_PORTS_ABOVE, 65_000, *choose_ports(0, 1)]
        metrics = choose_metrics_ports(ports)
    assert len({*ports, *metrics, above}) == 7
    if metrics[2] != ports[2] + METRICS_PORTS_ABOVE:
        with pytest.raises(CommandFailed, match="in use"):
            choose_ports(ports[2] + METRICS_PORTS_ABOVE, 1)


def test_a_broker_is_told_where_to_serve_metrics_and_no_override_can_say_so(
    tmp_path: Path,
) -> None:
    files = BrokerFiles(1, 9093, tmp_path, metrics_port=10093)
    files.write(Choices(3, "127.0.0.1:2181", {}))
    assert read_properties(files.properties)["barnabas.metrics.listener"] == "127.0.0.1:10093"
    with pytest.raises(Misused, match="each broker has its own; --base-port decides it"):
        check_overrides({"barnabas.metrics.listener": ":1"})


def test_ports_in_use_are_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandFailed, match=rf"port {port} is in use"):
            choose_ports(port, 1)
    with pytest.raises(Misused, match="there is no port 65536"):
        choose_ports(65535, 2)
